//! `cuda/prover_cuda.h` in Rust.

use std::ffi::{c_char, c_void};

pub const INTERNAL: i32 = 1;
pub const DEVICE: i32 = 2;
pub const OUT_OF_MEMORY: i32 = 3;
pub const NO_DEVICE: i32 = 4;
pub const WRONG_ARCHITECTURE: i32 = 5;
pub const USAGE: i32 = 6;

#[repr(C)]
pub struct Error {
    pub kind: i32,
    pub code: i32,
    pub message: [c_char; 504],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Shape {
    pub rows: u64,
    pub log_domain: u32,
    pub reserved: u32,
    pub inputs: u64,
    pub aux: u64,
    pub a_aux: u64,
    pub b_inputs: u64,
    pub b_aux: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Query {
    pub points: *const c_void,
    pub count: u64,
    pub host: i32,
    pub reserved: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Key {
    pub h: Query,
    pub l: Query,
    pub a: Query,
    pub b_g1: Query,
    pub b_g2: Query,
}

#[repr(C)]
pub struct Assignment {
    pub a: *const c_void,
    pub b: *const c_void,
    pub c: *const c_void,
    pub aux: *const c_void,
    pub inputs: *const c_void,
    pub a_aux_density: *const u64,
    pub b_input_density: *const u64,
    pub b_aux_density: *const u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Span {
    pub begin: f32,
    pub end: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Times {
    pub upload_witness: Span,
    pub upload_abc: Span,
    pub ntt: Span,
    pub h: Span,
    pub l: Span,
    pub a: Span,
    pub b_g1: Span,
    pub b_g2: Span,
}

#[repr(C)]
pub struct Sums {
    pub h: [u8; 144],
    pub l: [u8; 144],
    pub a: [u8; 144],
    pub b_g1: [u8; 144],
    pub b_g2: [u8; 288],
    pub times: Times,
}

/// An opaque slot.
#[repr(C)]
pub struct Slot {
    _private: [u8; 0],
}

extern "C" {
    pub fn pc_open(ordinals: *const i32, count: i32, error: *mut Error) -> i32;
    pub fn pc_memory(ordinal: i32, free: *mut u64, total: *mut u64, error: *mut Error) -> i32;
    pub fn pc_alloc(ordinal: i32, bytes: u64, out: *mut *mut c_void, error: *mut Error) -> i32;
    pub fn pc_free(ordinal: i32, memory: *mut c_void, error: *mut Error) -> i32;
    pub fn pc_write(ordinal: i32, to: *mut c_void, from: *const c_void, bytes: u64, error: *mut Error)
        -> i32;
    pub fn pc_pin(ordinal: i32, memory: *const c_void, bytes: u64, error: *mut Error) -> i32;
    pub fn pc_unpin(ordinal: i32, memory: *const c_void, error: *mut Error) -> i32;
    pub fn pc_plan_proof(
        ordinal: i32,
        shape: *const Shape,
        key: *const Key,
        workspace_bytes: *mut u64,
        error: *mut Error,
    ) -> i32;
    pub fn pc_slot_open(ordinal: i32, out: *mut *mut Slot, error: *mut Error) -> i32;
    pub fn pc_slot_close(slot: *mut Slot, error: *mut Error) -> i32;
    pub fn pc_slot_begin(
        slot: *mut Slot,
        shape: *const Shape,
        key: *const Key,
        assignment: *const Assignment,
        workspace: *mut c_void,
        workspace_bytes: u64,
        error: *mut Error,
    ) -> i32;
    pub fn pc_slot_event(slot: *mut Slot, event: *mut *mut c_void, error: *mut Error) -> i32;
    pub fn pc_slot_run(slot: *mut Slot, error: *mut Error) -> i32;
    pub fn pc_slot_wait_upload(slot: *mut Slot, error: *mut Error) -> i32;
    pub fn pc_slot_finish(slot: *mut Slot, sums: *mut Sums, error: *mut Error) -> i32;
    pub fn pc_slot_abandon(slot: *mut Slot, error: *mut Error) -> i32;
    pub fn pc_fixed_base(
        ordinal: i32,
        group: i32,
        base: *const c_void,
        scalars: *const c_void,
        count: u64,
        out: *mut c_void,
        error: *mut Error,
    ) -> i32;
    pub fn pc_fault(nth: i64, code: i32, sticky: i32);
    pub fn pc_calls() -> i64;
    pub fn pc_self_test(ordinal: i32, error: *mut Error) -> i32;
}
