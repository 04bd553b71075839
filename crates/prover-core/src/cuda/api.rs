//! The table of the driver's functions.

use std::ffi::{c_char, c_int, c_uint, c_void};

use cudarc::driver::sys;

use super::error::CudaError;
use super::raw::{CUcontext, CUdevice, CUdeviceptr, CUevent, CUstream};

/// A status as the driver returns it: 0, or a number of which a newer driver has more than this code knows.
pub(crate) type Status = c_int;

macro_rules! table {
    ($($(#[$doc:meta])* $field:ident = $symbol:literal ( $($argument:ty),* );)*) => {
        /// The functions used, by what they do. A name's version suffix is the one that `cuda.h` of CUDA 12.0 maps
        /// the plain name to.
        #[derive(Clone, Copy)]
        pub(crate) struct Api {
            $($(#[$doc])* pub(crate) $field: unsafe extern "C" fn($($argument),*) -> Status,)*
        }

        impl Api {
            /// Looks all of them up in the driver's library, which is loaded if it is not yet.
            pub(crate) fn load() -> Result<Self, CudaError> {
                // SAFETY: loading the driver's library runs its initialisers, as every CUDA program does.
                if !unsafe { sys::is_culib_present() } {
                    return Err(CudaError::NoDriver);
                }
                // SAFETY: as above. `culib` panics if it finds no library under the same names; it has just been
                // found.
                let library = unsafe { sys::culib() };
                Ok(Self {
                    $($field: {
                        type Function = unsafe extern "C" fn($($argument),*) -> Status;
                        // SAFETY: the type is the function's in cuda.h, with `CUresult` (a C enum) as the integer
                        // it is. The library is never unloaded, so the pointer stays good.
                        match unsafe { library.get::<Function>($symbol.as_bytes()) } {
                            Ok(symbol) => *symbol,
                            Err(_) => return Err(CudaError::MissingSymbol { symbol: $symbol }),
                        }
                    },)*
                })
            }

            /// A table of functions that all fail with `CUDA_ERROR_UNKNOWN`: tests replace those they are about.
            #[cfg(test)]
            pub(crate) fn broken() -> Self {
                Self {
                    $($field: {
                        unsafe extern "C" fn broken($(_: $argument),*) -> Status {
                            999
                        }
                        broken
                    },)*
                }
            }
        }
    };
}

table! {
    init = "cuInit"(c_uint);
    driver_version = "cuDriverGetVersion"(*mut c_int);

    device_count = "cuDeviceGetCount"(*mut c_int);
    device = "cuDeviceGet"(*mut CUdevice, c_int);
    device_name = "cuDeviceGetName"(*mut c_char, c_int, CUdevice);
    device_memory = "cuDeviceTotalMem_v2"(*mut usize, CUdevice);
    /// The attribute is a C enum in cuda.h.
    device_attribute = "cuDeviceGetAttribute"(*mut c_int, c_uint, CUdevice);
    device_pci_bus_id = "cuDeviceGetPCIBusId"(*mut c_char, c_int, CUdevice);
    device_uuid = "cuDeviceGetUuid_v2"(*mut [u8; 16], CUdevice);

    primary_retain = "cuDevicePrimaryCtxRetain"(*mut CUcontext, CUdevice);
    primary_release = "cuDevicePrimaryCtxRelease_v2"(CUdevice);
    primary_state = "cuDevicePrimaryCtxGetState"(CUdevice, *mut c_uint, *mut c_int);
    context_push = "cuCtxPushCurrent_v2"(CUcontext);
    context_pop = "cuCtxPopCurrent_v2"(*mut CUcontext);
    memory_info = "cuMemGetInfo_v2"(*mut usize, *mut usize);

    host_register = "cuMemHostRegister_v2"(*mut c_void, usize, c_uint);
    host_unregister = "cuMemHostUnregister"(*mut c_void);
    host_alloc = "cuMemHostAlloc"(*mut *mut c_void, usize, c_uint);
    host_free = "cuMemFreeHost"(*mut c_void);

    alloc = "cuMemAlloc_v2"(*mut CUdeviceptr, usize);
    free = "cuMemFree_v2"(CUdeviceptr);
    copy_to_device = "cuMemcpyHtoDAsync_v2"(CUdeviceptr, *const c_void, usize, CUstream);
    copy_to_host = "cuMemcpyDtoHAsync_v2"(*mut c_void, CUdeviceptr, usize, CUstream);

    stream_create = "cuStreamCreate"(*mut CUstream, c_uint);
    stream_synchronize = "cuStreamSynchronize"(CUstream);
    stream_destroy = "cuStreamDestroy_v2"(CUstream);

    event_create = "cuEventCreate"(*mut CUevent, c_uint);
    event_record = "cuEventRecord"(CUevent, CUstream);
    event_query = "cuEventQuery"(CUevent);
    event_synchronize = "cuEventSynchronize"(CUevent);
    event_elapsed = "cuEventElapsedTime"(*mut f32, CUevent, CUevent);
    event_destroy = "cuEventDestroy_v2"(CUevent);
}
