//! Sizes in bytes from counts of elements, checked.

use std::alloc::Layout;

use crate::AllocError;

/// The layout of `count` elements of `T`, in bytes.
///
/// It has no bytes if `count` is 0 or `T` has no size; [`Registry::allocate`](crate::Registry::allocate)
/// refuses that one.
///
/// # Errors
/// [`AllocError::CapacityOverflow`] if `count * size_of::<T>()` passes `isize::MAX`.
pub fn array_layout<T>(count: usize) -> Result<Layout, AllocError> {
    Layout::array::<T>(count)
        .map_err(|_| AllocError::CapacityOverflow { count, element_size: size_of::<T>() })
}
