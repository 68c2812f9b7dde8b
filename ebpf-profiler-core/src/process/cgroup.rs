//! The control group of a process, and the container that it names.
//!
//! ```text
//!   /proc/PID/cgroup   hierarchy : controllers : path       version 2: 0::/path
//! ```
//!
//! The innermost part of a path that is of one of these forms names the container:
//!
//! | part | by | id |
//! | --- | --- | --- |
//! | `ID`, `NAME-ID`, `NAME-ID.scope`, `SLICE:NAME:ID` | Docker, containerd, CRI-O, podman, ECS | 64 hexadecimal digits |
//! | `TASK-NUMBER` | ECS on Fargate | 32 hexadecimal digits, `-`, digits |
//! | `8-4-4-4-4` | Garden (Cloud Foundry) | hexadecimal digits |
//! | `lxc/NAME`, `lxc.payload/NAME`, `lxc.payload.NAME` | LXC, LXD, Incus | the name |
//! | `systemd-nspawn@NAME.service`, `machine.slice/machine-NAME.scope` | systemd-nspawn | the name |
//!
//! Processes that serve a container outside of it are in none: `conmon`, `lxc.monitor`, the
//! `supervisor` of systemd-nspawn, and virtual machines.

/// The control group of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cgroup {
    /// Path below the root of its hierarchy.
    pub(crate) path: String,
    /// Id or name of the container; empty outside of containers.
    pub(crate) container: String,
    /// Unique id of the Kubernetes pod; empty outside of pods.
    pub(crate) pod: String,
}

impl Cgroup {
    /// Parses the contents of `/proc/PID/cgroup`. Of several hierarchies, one that names a
    /// container is preferred, then version 2, then systemd's.
    pub(crate) fn parse(text: &str) -> Cgroup {
        let lines = text.lines().filter_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let rank = if number == "0" { 1 } else { u8::from(controllers != "name=systemd") + 2 };
            Some((rank, Cgroup::of_path(path)))
        });
        let best = lines.min_by_key(|(rank, cgroup)| {
            (cgroup.container.is_empty(), cgroup.pod.is_empty(), cgroup.path == "/", *rank)
        });
        best.map(|(_, cgroup)| cgroup).unwrap_or_default()
    }

    fn of_path(path: &str) -> Cgroup {
        // Of a group that was removed meanwhile.
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let part = |index: usize| parts.get(index).copied().unwrap_or_default();
        let ids = (0..parts.len())
            .rev()
            .filter_map(|index| container(part(index.wrapping_sub(1)), part(index), part(index + 1)));
        Cgroup {
            container: ids.map(|id| unescape(&id)).next().unwrap_or_default(),
            pod: parts.iter().rev().find_map(|part| pod(part)).unwrap_or_default(),
            path: path.to_owned(),
        }
    }
}

/// Returns the id of a container in a part of a path, between an outer and an inner part.
fn container(outer: &str, part: &str, inner: &str) -> Option<String> {
    if let Some(id) = generated(part) {
        return Some(id.to_owned());
    }
    let is_inside = inner != "supervisor" && inner != "runtime";
    let named = match outer {
        "lxc" | "lxc.payload" => Some(part),
        _ => part.strip_prefix("lxc.payload."),
    };
    let machine = |part: &'_ str| {
        let unit = part.strip_prefix("systemd-nspawn@").and_then(|part| part.strip_suffix(".service"));
        let scope = part.strip_prefix("machine-").and_then(|part| part.strip_suffix(".scope"));
        let scope = scope.filter(|name| outer == "machine.slice" && !name.starts_with(r"qemu\x2d"));
        unit.or(scope).filter(|_| is_inside).map(str::to_owned)
    };
    named.filter(|name| !name.is_empty()).map(str::to_owned).or_else(|| machine(part))
}

/// Returns an id that a runtime made up.
fn generated(part: &str) -> Option<&str> {
    let unit = part.strip_suffix(".scope").unwrap_or(part);
    let is_of_monitor = unit.contains("conmon-");
    let start = unit.len().checked_sub(64);
    let long = start.and_then(|start| Some((unit.get(..start)?, unit.get(start..)?)));
    let is_separate = |before: &str| before.is_empty() || before.ends_with(['-', ':']);
    match long {
        Some((before, id)) if is_hexadecimal(id) && is_separate(before) => (!is_of_monitor).then_some(id),
        _ => (is_of_fargate(part) || is_of_garden(part)).then_some(part),
    }
}

/// `0123456789abcdef0123456789abcdef-1234567890`
fn is_of_fargate(part: &str) -> bool {
    part.split_once('-').is_some_and(|(task, number)| {
        task.len() == 32
            && is_hexadecimal(task)
            && matches!(number.len(), 1..=10)
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// `01234567-89ab-cdef-0123-4567`
fn is_of_garden(part: &str) -> bool {
    has_groups(part, &[8, 4, 4, 4, 4])
}

/// Returns the unique id of a pod in `podUID` or `kubepods-CLASS-podUID.slice`, where `_` stands
/// for `-`.
fn pod(part: &str) -> Option<String> {
    let unit = part.split_once(':').map_or(part, |(slice, _)| slice);
    let id = match unit.strip_suffix(".slice") {
        Some(slice) => slice.rsplit_once("-pod").filter(|(before, _)| before.contains("kubepods"))?.1,
        None => unit.strip_prefix("pod")?,
    };
    let id = id.replace('_', "-");
    // Pods from files of the node have a hash.
    let is_hash = id.len() == 32 && is_hexadecimal(&id);
    (is_hash || has_groups(&id, &[8, 4, 4, 4, 12])).then_some(id)
}

fn has_groups(text: &str, lengths: &[usize]) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq(lengths.iter().copied())
        && groups.iter().all(|group| is_hexadecimal(group))
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Resolves the escapes of systemd's names of units: `\x2d` for `-`.
fn unescape(name: &str) -> String {
    let mut parts = name.split(r"\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = (part.get(..2), part.get(2..).unwrap_or_default());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => bytes.extend([&[byte], rest.as_bytes()].concat()),
            None => bytes.extend([br"\x".as_slice(), part.as_bytes()].concat()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";
    const UID: &str = "2b7f3d9c-8a1e-4c55-9f0d-6e1a2b3c4d5e";
    const UNIT: &str = "2b7f3d9c_8a1e_4c55_9f0d_6e1a2b3c4d5e";
    const HASH: &str = "5f4dcc3b5aa765d61d8327deb882cf99";
    const TASK: &str = "c23e5f76c09d438aa1824ca4058bdcab";
    const GARDEN: &str = "70f8c1a2-9b3d-4e5f-6a7b-8c9d";

    /// Paths with `ID` and others for the constants above, the expected container and pod.
    const PATHS: &[(&str, &str, &str)] = &[
        // Docker: cgroupfs, systemd, another parent, in Docker, as its service once had it.
        ("/docker/ID", "ID", ""),
        ("/system.slice/docker-ID.scope", "ID", ""),
        ("/system.slice/docker-ID.scope/init.scope", "ID", ""),
        ("/docker/ID/system.slice/nginx.service", "ID", ""),
        ("/my.slice/docker-ID.scope", "ID", ""),
        ("/parent/ID", "ID", ""),
        ("/docker/OTHER/docker/ID", "ID", ""),
        ("/system.slice/docker-OTHER.scope/docker/ID", "ID", ""),
        ("/system.slice/docker.service/docker/ID", "ID", ""),
        ("/../../docker-ID.scope", "ID", ""),
        ("/docker/ID (deleted)", "ID", ""),
        // containerd: Kubernetes with both drivers and classes, the wrong driver, nerdctl, ctr.
        ("/kubepods/podUID/ID", "ID", "UID"),
        ("/kubepods/burstable/podUID/ID", "ID", "UID"),
        ("/kubepods/besteffort/podHASH/ID", "ID", "HASH"),
        ("/kubepods.slice/kubepods-podUNIT.slice/cri-containerd-ID.scope", "ID", "UID"),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUNIT.slice/cri-containerd-ID.scope",
            "ID",
            "UID",
        ),
        ("/system.slice/containerd.service/kubepods-burstable-podUNIT.slice:cri-containerd:ID", "ID", "UID"),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podHASH.slice/docker-ID.scope",
            "ID",
            "HASH",
        ),
        ("/default/ID", "ID", ""),
        ("/system.slice/nerdctl-ID.scope", "ID", ""),
        ("/default/redis", "", ""),
        // A node of a cluster in Docker (kind), outside of and in a pod.
        ("/docker/OTHER/kubelet/kubepods/burstable/podUID/ID", "ID", "UID"),
        (
            "/docker/OTHER/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/\
             kubelet-kubepods-besteffort-podUNIT.slice/cri-containerd-ID.scope",
            "ID",
            "UID",
        ),
        ("/docker/ID/kubelet.slice/kubelet.service", "ID", ""),
        // CRI-O.
        (
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podUNIT.slice/crio-ID.scope",
            "ID",
            "UID",
        ),
        ("/kubepods.slice/kubepods-podUNIT.slice/crio-ID.scope/container", "ID", "UID"),
        ("/kubepods/burstable/podUID/crio-ID", "ID", "UID"),
        ("/kubepods.slice/kubepods-podUNIT.slice/crio-conmon-ID.scope", "", "UID"),
        ("/system.slice/crio-conmon-ID.scope", "", ""),
        // podman: as root, of a user, in a pod, in a unit, cgroupfs.
        ("/machine.slice/libpod-ID.scope", "ID", ""),
        ("/machine.slice/libpod-ID.scope/container", "ID", ""),
        ("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope/container", "ID", ""),
        ("/machine.slice/machine-libpod_pod_OTHER.slice/libpod-ID.scope", "ID", ""),
        ("/machine.slice/machine-libpod_pod_OTHER.slice", "", ""),
        ("/system.slice/web.service/libpod-payload-ID", "ID", ""),
        ("/system.slice/web.service/runtime", "", ""),
        ("/machine.slice/libpod-conmon-ID.scope", "", ""),
        ("/libpod_parent/libpod-ID", "ID", ""),
        ("/libpod_parent/conmon", "", ""),
        // LXC, LXD, Incus, and containers in them.
        ("/lxc/web", "web", ""),
        ("/lxc/101/ns/system.slice/ssh.service", "101", ""),
        ("/lxc.payload/web", "web", ""),
        ("/lxc.payload.web/init.scope", "web", ""),
        ("/lxc.payload.web/lxc.payload.inner/init.scope", "inner", ""),
        ("/lxc.payload.web/system.slice/docker-ID.scope", "ID", ""),
        ("/lxc.monitor.web", "", ""),
        ("/lxc.monitor/web", "", ""),
        // systemd-nspawn.
        ("/machine.slice/systemd-nspawn@web.service/payload/system.slice/nginx.service", "web", ""),
        ("/machine.slice/systemd-nspawn@web.service/supervisor", "", ""),
        (r"/machine.slice/systemd-nspawn@web\x2d1.service/payload", "web-1", ""),
        (r"/machine.slice/machine-web\x2d1.scope/payload/init.scope", "web-1", ""),
        ("/machine.slice/machine-web.scope/supervisor", "", ""),
        (r"/machine.slice/machine-qemu\x2d3\x2dvm.scope/libvirt/emulator", "", ""),
        // ECS: on machines and on Fargate.
        ("/ecs/TASK/ID", "ID", ""),
        ("/ecs/cluster/TASK/ID", "ID", ""),
        ("/ecstasks.slice/ecstasks-TASK.slice/docker-ID.scope", "ID", ""),
        ("/ecs/TASK/TASK-1234567890", "TASK-1234567890", ""),
        // Garden.
        ("/garden/GARDEN", "GARDEN", ""),
        ("/system.slice/garden.service/garden/good/GARDEN", "GARDEN", ""),
        // None.
        ("/", "", ""),
        ("/init.scope", "", ""),
        ("/system.slice/nginx.service", "", ""),
        ("/user.slice/user-1000.slice/session-1.scope", "", ""),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/app-UID.scope", "", ""),
        ("/system.slice/var-lib-docker-containers-ID-mounts-shm.mount", "", ""),
        ("/docker/0ID", "", ""),
        ("/x/podsecurity.slice", "", ""),
        ("/lxc/", "", ""),
    ];

    fn filled(text: &str) -> String {
        let names = [
            ("OTHER", OTHER),
            ("GARDEN", GARDEN),
            ("UID", UID),
            ("UNIT", UNIT),
            ("HASH", HASH),
            ("TASK", TASK),
            ("ID", ID),
        ];
        names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    #[test]
    fn containers_and_pods_of_each_runtime_are_found() {
        for (path, container, pod) in PATHS {
            let path = filled(path);
            for line in [format!("0::{path}\n"), format!("12:cpu,cpuacct:{path}\n1:name=systemd:{path}\n")] {
                let cgroup = Cgroup::parse(&line);
                assert_eq!(
                    (&*cgroup.container, &*cgroup.pod),
                    (&*filled(container), &*filled(pod)),
                    "{line}"
                );
                assert_eq!(cgroup.path, path.strip_suffix(" (deleted)").unwrap_or(&path));
            }
        }
    }

    #[test]
    fn hierarchy_with_a_container_is_preferred() {
        let of = |text: &str| Cgroup::parse(&filled(text)).path;
        let hybrid = "11:memory:/docker/ID\n1:name=systemd:/docker/ID\n0::/system.slice/containerd.service\n";
        assert_eq!(of(hybrid), filled("/docker/ID"));
        let host = "11:memory:/\n2:cpu:/user.slice\n1:name=systemd:/user.slice/session-1.scope\n0::/\n";
        assert_eq!(of(host), "/user.slice/session-1.scope");
        assert_eq!(of("1:name=systemd:/a\n0::/b\n"), "/b");
        assert_eq!(of("0::/\n"), "/");
        assert_eq!(of(""), "");
    }

    #[test]
    fn any_text_is_parsed() {
        for text in
            [":", "::", "0::", "0::/é/\u{fffd}-", "\\x", "0::/lxc/\\x", "0::/lxc/\\xzz\\x4", "0:::/a:b:"]
        {
            let Cgroup { container, .. } = Cgroup::parse(text);
            assert!(container.len() < 16, "{text}");
        }
        let wide = format!("0::/{}", "é".repeat(64));
        assert_eq!(Cgroup::parse(&wide).container, "");
    }
}
