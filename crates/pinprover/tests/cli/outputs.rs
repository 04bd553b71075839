//! Output files and streams: complete or absent.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::support::{command, prove_arguments, run, setup_arguments, verify_arguments, Folder, Proved, Run};

#[test]
fn an_output_that_is_an_input_is_refused_and_the_input_stays() {
    let made = Proved::multiplier();
    let folder = Folder::new();
    let r1cs = folder.path("c.r1cs");
    fs::copy(made.r1cs(), &r1cs).unwrap();
    std::os::unix::fs::symlink(&r1cs, folder.path("link")).unwrap();
    let before = folder.content();
    for output in [r1cs.clone(), folder.path("link"), folder.path("./c.r1cs")] {
        run(setup_arguments(&r1cs, &output, &folder.path("vk"))).expect_error(2, &["--params", "--r1cs"]);
        run(setup_arguments(&r1cs, &folder.path("params"), &output)).expect_error(2, &["--vk", "--r1cs"]);
    }
    let one = folder.path("one");
    run(setup_arguments(&r1cs, &one, &one)).expect_error(2, &["--vk", "--params"]);
    run(prove_arguments(&r1cs, &made.wtns(), &made.params(), &made.params(), &folder.path("public")))
        .expect_error(2, &["--proof", "--params"]);
    assert_eq!(folder.content(), before);
}

#[test]
fn folders_that_cannot_be_written_are_named_before_any_work() {
    let made = Proved::multiplier();
    let folder = Folder::new();
    let read_only = folder.path("read-only");
    fs::create_dir(&read_only).unwrap();
    fs::set_permissions(&read_only, fs::Permissions::from_mode(0o555)).unwrap();
    // Root may write there all the same; in /proc nobody makes files.
    // SAFETY: geteuid has no preconditions.
    let root = unsafe { libc::geteuid() } == 0;
    let refused = if root { "/proc".into() } else { read_only };
    for folder in [refused, folder.path("absent")] {
        let name = folder.display().to_string();
        let vk = folder.join("vk");
        run(setup_arguments(&made.r1cs(), &Folder::new().path("params"), &vk)).expect_error(1, &[&name]);
    }
    let vk = folder.path("vk");
    run(setup_arguments(&made.r1cs(), folder.root(), &vk)).expect_error(2, &["--params", "is a folder"]);
    let below_a_file = made.vk().join("params");
    run(setup_arguments(&made.r1cs(), &below_a_file, &vk)).expect_error(2, &["--params", "not a folder"]);
    run(setup_arguments(&made.r1cs(), "/dev/null".as_ref(), &vk)).expect_error(2, &["--params", "/dev/null"]);
    assert!(!vk.exists());
}

#[test]
fn outputs_replace_what_was_there_and_leave_nothing_beside() {
    let made = Proved::multiplier();
    let folder = Folder::new();
    let proof = folder.file("c.proof", "an old proof, longer than 192 bytes ".repeat(40));
    let public = folder.file("c.public.json", "old");
    // A reader of the old file keeps it: it was replaced, not written over.
    let mut reader = File::open(&proof).unwrap();
    made.prove(&proof, &public).expect(0);
    assert_eq!(folder.names(), ["c.proof", "c.public.json"]);
    assert_eq!(fs::metadata(&proof).unwrap().len(), 192);
    let values: Vec<String> = serde_json::from_slice(&fs::read(&public).unwrap()).unwrap();
    assert_eq!(values, ["33"]);
    let mut old = String::new();
    reader.read_to_string(&mut old).unwrap();
    assert!(old.starts_with("an old proof"));
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let made = Proved::multiplier();
    let (vk, proof, public) = (made.vk(), made.proof(), made.public());
    for arguments in [
        verify_arguments(&vk, &proof, &public),
        vec!["--help".as_ref()],
        vec!["demo".as_ref(), "--circuit=squarings".as_ref(), "--constraints=8".as_ref()],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(&arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn a_full_disk_on_standard_output_is_a_failure() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let demo = ["demo", "--circuit=squarings", "--constraints=8"];
    let run: Run = command(demo).stdout(full).stderr(Stdio::piped()).output().unwrap().into();
    run.expect_error(1, &["standard output"]);
}
