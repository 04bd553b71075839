//! The driver's answers and what becomes of them, over a table of functions that answer as they are told. The same
//! with a real driver is in `tests/cuda_memory.rs`.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint};
use std::ptr;
use std::sync::Arc;

use super::api::{Api, Status};
use super::error::{DEINITIALIZED, INVALID_VALUE, NOT_READY, NO_DEVICE};
use super::raw::{CUcontext, CUdevice, CUevent};
use super::*;
use crate::memory::pool::Fence;

thread_local! {
    /// What the call under test answers.
    static ANSWER: Cell<Status> = const { Cell::new(0) };
    /// Contexts pushed and not popped.
    static PUSHED: Cell<i32> = const { Cell::new(0) };
    /// Contexts retained and not released.
    static RETAINED: Cell<i32> = const { Cell::new(0) };
}

const DEVICES: c_int = 2;

unsafe extern "C" fn init(_: c_uint) -> Status {
    ANSWER.get()
}
unsafe extern "C" fn device_count(count: *mut c_int) -> Status {
    // SAFETY: the caller's pointer may be written, here and below.
    unsafe { *count = DEVICES };
    0
}
unsafe extern "C" fn no_device(count: *mut c_int) -> Status {
    // SAFETY: as above.
    unsafe { *count = 0 };
    0
}
unsafe extern "C" fn device(device: *mut CUdevice, ordinal: c_int) -> Status {
    // SAFETY: as above.
    unsafe { *device = ordinal };
    0
}
unsafe extern "C" fn device_text(text: *mut c_char, length: c_int, _: CUdevice) -> Status {
    // A text that fills all it was given, without an end.
    // SAFETY: as above, for `length` bytes.
    unsafe { text.cast::<u8>().write_bytes(b'x', length as usize) };
    0
}
unsafe extern "C" fn device_memory(bytes: *mut usize, _: CUdevice) -> Status {
    // SAFETY: as above.
    unsafe { *bytes = 150 << 30 };
    0
}
unsafe extern "C" fn device_attribute(value: *mut c_int, attribute: c_uint, _: CUdevice) -> Status {
    // SAFETY: as above.
    unsafe { *value = if attribute == 75 { 9 } else { 0 } };
    0
}
unsafe extern "C" fn device_uuid(uuid: *mut [u8; 16], _: CUdevice) -> Status {
    // SAFETY: as above.
    unsafe { *uuid = std::array::from_fn(|i| 0x10 + i as u8) };
    0
}
unsafe extern "C" fn primary_retain(context: *mut CUcontext, _: CUdevice) -> Status {
    RETAINED.set(RETAINED.get() + 1);
    // SAFETY: as above.
    unsafe { *context = ptr::without_provenance_mut(16) };
    0
}
unsafe extern "C" fn primary_release(_: CUdevice) -> Status {
    RETAINED.set(RETAINED.get() - 1);
    0
}
unsafe extern "C" fn context_push(_: CUcontext) -> Status {
    PUSHED.set(PUSHED.get() + 1);
    0
}
unsafe extern "C" fn context_pop(_: *mut CUcontext) -> Status {
    PUSHED.set(PUSHED.get() - 1);
    0
}
unsafe extern "C" fn event_create(event: *mut CUevent, _: c_uint) -> Status {
    // SAFETY: as above.
    unsafe { *event = ptr::without_provenance_mut(32) };
    0
}
unsafe extern "C" fn event(_: CUevent) -> Status {
    ANSWER.get()
}

fn api() -> Api {
    ANSWER.set(0);
    Api {
        init,
        device_count,
        device,
        device_name: device_text,
        device_pci_bus_id: device_text,
        device_memory,
        device_attribute,
        device_uuid,
        primary_retain,
        primary_release,
        context_push,
        context_pop,
        event_create,
        event_query: event,
        event_synchronize: event,
        event_destroy: event,
        ..Api::broken()
    }
}

fn context() -> Arc<Context> {
    Context::with(Box::leak(Box::new(Driver::with(api()).unwrap())), 1).unwrap()
}

/// On any machine: asking is a plain answer, with or without a driver.
#[test]
fn asking_for_devices_never_panics() {
    match devices() {
        Ok(devices) => assert!(!devices.is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

#[test]
fn no_device_is_a_plain_answer() {
    let api = api();
    ANSWER.set(NO_DEVICE);
    let error = Driver::with(api).unwrap_err();
    assert!(matches!(error, CudaError::NoDevice { .. }) && error.is_absence(), "{error}");
    ANSWER.set(0);
    let error = Driver::with(Api { device_count: no_device, ..api }).unwrap().device_count().unwrap_err();
    assert!(matches!(error, CudaError::NoDevice { .. }), "{error}");
    ANSWER.set(803);
    let error = Driver::with(api).unwrap_err();
    assert_eq!((error.code(), error.is_absence()), (Some(803), false));
}

#[test]
fn devices_are_described_without_a_context() {
    let driver = Driver::with(api()).unwrap();
    let device = driver.describe(1).unwrap();
    assert_eq!((device.ordinal, device.compute_capability, device.memory), (1, (9, 0), 150 << 30));
    assert_eq!(device.name, "x".repeat(255));
    assert_eq!(device.uuid, "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f");
    assert_eq!((RETAINED.get(), PUSHED.get()), (0, 0));
    for ordinal in [2, 7, usize::MAX] {
        let error = driver.describe(ordinal).unwrap_err();
        assert!(matches!(error, CudaError::NoSuchDevice { count: 2, .. }), "{error}");
    }
}

#[test]
fn contexts_are_released_and_never_left_current() {
    let context = context();
    assert_eq!((context.device().ordinal, RETAINED.get()), (1, 1));
    let event = Event::untimed(&context).unwrap();
    assert_eq!(event.wait(), Ok(()));
    // A call that fails leaves the thread as it was, too.
    let error = Stream::new(&context).unwrap_err();
    assert_eq!(error, CudaError::Call { call: "cuStreamCreate", code: 999 });
    drop(event);
    assert_eq!((RETAINED.get(), PUSHED.get()), (1, 0));
    drop(context);
    assert_eq!(RETAINED.get(), 0);
}

#[test]
fn fences_pass_fail_and_end_with_the_driver() {
    let fence = CudaFence::of(Event::untimed(&context()).unwrap());
    assert!(fence.is_passed().unwrap());
    ANSWER.set(NOT_READY);
    assert!(!fence.is_passed().unwrap());
    for code in [INVALID_VALUE, 700, 719, 31337] {
        ANSWER.set(code);
        let shown = [fence.is_passed().unwrap_err().to_string(), fence.wait().unwrap_err().to_string()];
        assert!(shown.iter().all(|text| text.contains(&format!("CUDA error {code} "))), "{shown:?}");
    }
    // The process ends: there is no copy left.
    ANSWER.set(DEINITIALIZED);
    assert!(fence.is_passed().unwrap());
    fence.wait().unwrap();
    drop(fence);
    assert_eq!(PUSHED.get(), 0);
}

/// Field case 31, the part that needs no fork.
#[test]
fn a_forked_child_is_told_so_before_any_call() {
    let driver: &'static Driver = Box::leak(Box::new(Driver::with(api()).unwrap().after_fork()));
    let context = Context::with(driver, 0).unwrap();
    let retained = RETAINED.get();
    let error = Event::untimed(&context).unwrap_err();
    assert!(error.to_string().starts_with("CUDA used after fork"), "{error}");
    drop(context);
    assert_eq!((RETAINED.get(), PUSHED.get()), (retained, 0), "what is the parent's stays the parent's");
}
