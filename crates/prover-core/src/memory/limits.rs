//! How much memory this process may use.
//!
//! The smallest of: physical memory, every cgroup limit from the process's own group up to the root (version
//! 1 and 2, also when both are mounted), and the limit on address space; less a margin for everything that no
//! budget counts (code, stacks, page tables, the allocator's slack, other processes). What cannot be read is
//! no limit: a system without `/proc` or cgroups is quietly taken for one without limits.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::Serialize;

/// What is taken if no limit at all is known, in bytes.
pub const DEFAULT_TOTAL: u64 = 4 << 30;

/// Limits at or above this are "no limit": version 1 writes one as the largest multiple of a page below
/// `2^63`.
const NO_LIMIT: u64 = 1 << 60;

/// What limits the memory of this process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Limit {
    /// In bytes.
    pub bytes: u64,
    /// Where it was read: `/proc/meminfo`, the path of a cgroup's file, or the name of a resource limit.
    pub source: String,
}

/// Every limit found, the smallest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limits(Vec<Limit>);

impl Limits {
    /// The limits of this process.
    pub fn detect() -> Self {
        let mut limits = Self::read(Path::new("/"));
        if let Some(bytes) = address_space() {
            limits.add(bytes, "RLIMIT_AS".into());
        }
        limits
    }

    /// The limits that the files under `root` name, as if `root` were `/`.
    pub fn read(root: &Path) -> Self {
        let mut limits = Self::default();
        if let Some(bytes) = physical(root) {
            limits.add(bytes, "/proc/meminfo".into());
        }
        for file in cgroup_files(root) {
            let shown = file.display().to_string();
            if let Some(bytes) = read_small(&root.join(file.strip_prefix("/").unwrap_or(&file)))
                .and_then(|text| text.trim().parse::<u64>().ok())
            {
                limits.add(bytes, shown);
            }
        }
        limits
    }

    fn add(&mut self, bytes: u64, source: String) {
        if bytes < NO_LIMIT {
            let at = self.0.partition_point(|limit| limit.bytes <= bytes);
            self.0.insert(at, Limit { bytes, source });
        }
    }

    /// All of them, the smallest first.
    pub fn all(&self) -> &[Limit] {
        &self.0
    }

    /// The one that binds.
    pub fn smallest(&self) -> Option<&Limit> {
        self.0.first()
    }

    /// Bytes for a budget: the smallest limit, or [`DEFAULT_TOTAL`] without any, less [`margin`].
    pub fn total(&self) -> u64 {
        let bytes = self.smallest().map_or(DEFAULT_TOTAL, |limit| limit.bytes);
        bytes - margin(bytes)
    }
}

/// What of `bytes` is left to others: a sixteenth, but at least 256 MiB and at most 8 GiB, and never more
/// than half.
pub fn margin(bytes: u64) -> u64 {
    (bytes / 16).clamp(256 << 20, 8 << 30).min(bytes / 2)
}

fn physical(root: &Path) -> Option<u64> {
    let text = read_small(&root.join("proc/meminfo"))?;
    let rest = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The files that may hold a limit, as absolute paths below the root.
fn cgroup_files(root: &Path) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    let groups = read_small(&root.join("proc/self/cgroup")).unwrap_or_default();
    let mounts = Mounts::read(root);
    // A line is `id:controllers:path`; version 2 is id 0 with no controllers.
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (mounts, names): (_, &[&str]) = if id == "0" && controllers.is_empty() {
            (&mounts.v2, &["memory.max", "memory.high"])
        } else if controllers.split(',').any(|name| name == "memory") {
            (&mounts.v1, &["memory.limit_in_bytes"])
        } else {
            continue;
        };
        for mount in mounts {
            for folder in mount.folders_up_from(Path::new(path)) {
                files.extend(names.iter().map(|name| folder.join(name)));
            }
        }
    }
    files
}

/// Where a cgroup hierarchy is mounted.
struct Mount {
    /// The group that the mount point shows; a container's own group, often.
    top: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// The folder of `group` and all above it, up to the mount point. Inside a container without a cgroup
    /// namespace the group's path is the host's and is not there; the folders above it, down to the mount
    /// point, still are.
    fn folders_up_from(&self, group: &Path) -> Vec<PathBuf> {
        let below = group.strip_prefix(&self.top).or_else(|_| group.strip_prefix("/")).unwrap_or(group);
        // A group outside the namespace is shown as `/../other`: nothing of it can be read but the mount
        // point.
        let plain: PathBuf = below.components().take_while(|c| matches!(c, Component::Normal(_))).collect();
        plain.ancestors().map(|folder| self.point.join(folder)).collect()
    }
}

struct Mounts {
    v1: Vec<Mount>,
    v2: Vec<Mount>,
}

impl Mounts {
    /// From `mountinfo`, with the usual places besides, so that a missing or odd `mountinfo` costs nothing.
    fn read(root: &Path) -> Self {
        let usual = |point: &str| Mount { top: "/".into(), point: point.into() };
        let mut mounts = Self {
            v1: vec![usual("/sys/fs/cgroup/memory")],
            v2: vec![usual("/sys/fs/cgroup"), usual("/sys/fs/cgroup/unified")],
        };
        for line in read_small(&root.join("proc/self/mountinfo")).unwrap_or_default().lines() {
            // `id parent dev top point options [tags]… - type source super-options`
            let Some((before, after)) = line.split_once(" - ") else { continue };
            let (mut before, mut after) = (before.split(' ').skip(3), after.split(' '));
            let (Some(top), Some(point)) = (before.next(), before.next()) else { continue };
            let mount = Mount { top: top.into(), point: point.into() };
            match (after.next(), after.nth(1)) {
                (Some("cgroup2"), _) => mounts.v2.push(mount),
                (Some("cgroup"), Some(options)) if options.split(',').any(|o| o == "memory") => {
                    mounts.v1.push(mount);
                }
                _ => {}
            }
        }
        mounts
    }
}

/// The text of a small file; `None` if it cannot be read.
fn read_small(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The soft limit on address space, in bytes.
#[cfg(unix)]
fn address_space() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid `rlimit` for the call to fill.
    let status = unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) };
    // The type of the field differs between systems.
    #[allow(clippy::unnecessary_cast)]
    let bytes = limit.rlim_cur as u64;
    (status == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(bytes)
}

#[cfg(not(unix))]
fn address_space() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(files: &[(&str, &str)]) -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            for (path, text) in files {
                let path = tree.0.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            tree
        }

        fn smallest(&self) -> (u64, String) {
            let limit = Limits::read(self.0.path()).smallest().cloned().unwrap();
            (limit.bytes, limit.source)
        }
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:       33554432 kB\nMemFree: 1 kB\n");

    #[test]
    fn nothing_to_read_is_a_quiet_default() {
        let limits = Limits::read(Tree::new(&[]).0.path());
        assert_eq!(limits.all(), []);
        assert_eq!(limits.total(), DEFAULT_TOTAL - margin(DEFAULT_TOTAL));
        let odd = Tree::new(&[
            ("proc/meminfo", "MemTotal: many kB\n"),
            ("proc/self/cgroup", "\n:\n0:\n0::/../x\nnonsense\n\u{fffd}"),
            ("proc/self/mountinfo", " - \n1 2 3 - cgroup2\n"),
            ("sys/fs/cgroup/memory.max", "-1"),
        ]);
        assert_eq!(Limits::read(odd.0.path()).all(), []);
    }

    #[test]
    fn physical_memory_alone() {
        assert_eq!(Tree::new(&[MEMINFO]).smallest(), (32 * GIB, "/proc/meminfo".into()));
    }

    #[test]
    fn version_2_any_group_on_the_path_binds() {
        for (leaf, middle, top, high, expected) in [
            ("max", "max", "max", "max", 32),
            ("8589934592", "max", "max", "max", 8),
            ("max", "4294967296", "max", "max", 4),
            ("8589934592", "17179869184", "2147483648", "max", 2),
            ("8589934592", "max", "max", "1073741824", 1),
        ] {
            let tree = Tree::new(&[
                MEMINFO,
                ("proc/self/cgroup", "0::/a.slice/b.scope\n"),
                ("sys/fs/cgroup/a.slice/b.scope/memory.max", leaf),
                ("sys/fs/cgroup/a.slice/b.scope/memory.high", high),
                ("sys/fs/cgroup/a.slice/memory.max", middle),
                ("sys/fs/cgroup/memory.max", top),
                // A sibling's limit is not ours.
                ("sys/fs/cgroup/other/memory.max", "4096"),
            ]);
            assert_eq!(tree.smallest().0, expected * GIB, "{leaf} {middle} {top} {high}");
        }
    }

    #[test]
    fn version_1_and_both_at_once() {
        let tree = Tree::new(&[
            MEMINFO,
            ("proc/self/cgroup", "4:cpu,memory:/docker/abc\n1:name=systemd:/x\n0::/u\n"),
            ("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "3221225472\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/unified/u/memory.max", "6442450944\n"),
        ]);
        assert_eq!(tree.smallest(), (3 * GIB, "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes".into()));
        let limits = Limits::read(tree.0.path());
        assert_eq!(limits.all().iter().map(|l| l.bytes / GIB).collect::<Vec<_>>(), [3, 6, 32]);
    }

    #[test]
    fn a_container_that_sees_the_hosts_path() {
        // Version 1, no cgroup namespace: the path of the host, but only the container's own group is
        // mounted.
        let tree = Tree::new(&[
            MEMINFO,
            ("proc/self/cgroup", "4:memory:/docker/abc\n"),
            (
                "proc/self/mountinfo",
                "30 20 0:26 /docker/abc /cgroups/mem ro,nosuid - cgroup cgroup rw,memory\n",
            ),
            ("cgroups/mem/memory.limit_in_bytes", "1073741824\n"),
        ]);
        assert_eq!(tree.smallest(), (GIB, "/cgroups/mem/memory.limit_in_bytes".into()));
        let tree = Tree::new(&[
            MEMINFO,
            ("proc/self/cgroup", "4:memory:/docker/abc\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"),
        ]);
        assert_eq!(tree.smallest().0, GIB);
    }

    #[test]
    fn the_margin_is_sane_at_every_size() {
        assert_eq!(margin(0), 0);
        assert_eq!(margin(100 << 20), 50 << 20);
        assert_eq!(margin(GIB), 256 << 20);
        assert_eq!(margin(64 * GIB), 4 * GIB);
        assert_eq!(margin(1024 * GIB), 8 * GIB);
        assert_eq!(margin(u64::MAX), 8 * GIB);
    }

    #[test]
    fn this_machine_has_limits() {
        let limits = Limits::detect();
        if cfg!(target_os = "linux") {
            assert!(limits.smallest().is_some());
        }
        assert!(limits.total() >= 16 << 20, "{limits:?}");
    }
}
