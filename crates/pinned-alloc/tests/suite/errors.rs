//! The texts: each number that the error holds, and the knob.

use pinned_alloc::{AllocError, AlreadyRegistered, Cause};

#[test]
fn every_text_holds_its_numbers_and_its_knob() {
    let knob = "--pinned-max";
    let cause = Cause::new("mlock", 12, "raise the limit with `ulimit -l`");
    let cases: &[(AllocError, &[&str])] = &[
        (AllocError::NotRegistered, &["no pinned-memory allocator is registered"]),
        (AllocError::ZeroSize, &["0 bytes"]),
        (AllocError::CapacityOverflow { count: 901, element_size: 32 }, &["901 elements", "32 bytes"]),
        (
            AllocError::Exhausted { requested: 901, available: 77, total: 888, knob },
            &["host memory (system RAM)", "901 bytes", "77 of", "888 bytes", knob],
        ),
        (
            AllocError::TooLarge { requested: 1 << 40, limit: 888, knob },
            &["host memory (system RAM)", "1099511627776 bytes", "888 bytes", knob],
        ),
        (
            AllocError::TimedOut { requested: 901, waited_ms: 1500, knob },
            &["host memory (system RAM)", "901 bytes", "1500 ms", knob],
        ),
        (AllocError::AlignmentTooLarge { align: 8192, limit: 4096 }, &["8192 bytes", "4096 bytes"]),
        (
            AllocError::Refused { requested: 901, cause },
            &[
                "host memory (system RAM)",
                "mlock",
                "901 bytes",
                "error 12",
                "raise the limit with `ulimit -l`",
            ],
        ),
        (AllocError::CannotGrow { size: 64, requested: 901 }, &["64 bytes", "901 bytes"]),
        (AllocError::ShuttingDown, &["shutting down"]),
        (AllocError::BrokenAllocator { requested: 901, what: "it lied" }, &["901 bytes", "it lied"]),
    ];
    for (error, parts) in cases {
        let text = error.to_string();
        for part in *parts {
            assert!(text.contains(part), "{part:?} is missing in {text:?}");
        }
        assert!(!text.contains('\n') && !text.contains("  "), "one clean line: {text:?}");
        assert!(!text.to_lowercase().contains("gpu"), "this is about host memory: {text:?}");
    }
    let taken = AlreadyRegistered { by: "pages" }.to_string();
    assert!(taken.contains("pages") && taken.contains("drop its registration"), "{taken:?}");
}
