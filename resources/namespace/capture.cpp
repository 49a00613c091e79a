// Descriptors of namespaces: ioctl(NS_GET_NSTYPE) tells the type, since Linux 4.11 (ioctl_ns(2)). Two of them
// are of one namespace if device and inode are the same (namespaces(7)).
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include "resources/namespace/capture_own.h"

namespace cairn::capture {

// The kernel's name for it is its type: "net:[4026531840]". One that is mounted somewhere has a path, and is
// opened again by that as a file.
bool is_namespace(const Looked& it) {
    struct statfs system {};
    return !it.name.empty() && it.opened(S_IFREG) && ::fstatfs(it.found.fd(), &system) == 0 &&
           system.f_type == NSFS_MAGIC;
}

Result<> describe_namespace(Table& table, const Description& found, schema::Object& object) {
    const int answer = ::ioctl(found.fd(), NS_GET_NSTYPE);
    if (answer < 0) return fail_errno("is a namespace: NS_GET_NSTYPE");
    const auto type = static_cast<schema::NamespaceType>(answer);
    const std::string_view name = schema::name_of(type);
    if (name.empty())
        return fail_code(
            ExitCode::refused,
            "is a namespace of the unknown type {:#x}: this can't be saved yet; close it before a "
            "checkpoint",
            answer);
    // One of /proc/PID/ns/pid_for_children or time_for_children shows itself as any other of its type. What
    // it is of is the process's own as long as the process hasn't called unshare(2).
    if (const auto own = own_namespace(table, inode_of(found.status))) {
        object.what = schema::Namespace{type, std::nullopt, own};
        return {};
    }
    const std::string path = fmt::format("{}ns/{}", proc_folder(found.holder), name);
    struct stat own {};
    if (::stat(path.c_str(), &own) != 0) return fail_errno("is a namespace: {}", path);
    if (inode_of(own) != inode_of(found.status))
        return fail_code(
            ExitCode::refused,
            "is a namespace of type {} that no process of the computation is in, which can't be saved; "
            "close it before a checkpoint",
            name);
    object.what = schema::Namespace{type, std::nullopt, std::nullopt};
    return {};
}

}  // namespace cairn::capture
