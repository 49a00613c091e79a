// Which kind a description is of. To add a kind: a line here, a file beside this one, its twin in
// restart/objects.
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "capture/objects/table.h"

namespace cairn::capture {
namespace {

bool is_terminal(const Description& found) {
    if (!found.is(S_IFCHR) || (found.flags & O_PATH)) return false;
    const unsigned number = major(found.status.st_rdev);
    // /dev/tty (5:0) is no terminal of its own: it is opened again by its path, in the process.
    const bool dev_tty = number == 5 && minor(found.status.st_rdev) == 0;
    return !dev_tty && ::isatty(found.fd()) == 1;
}

bool is_pty_master(const Description& found) {
    return found.is(S_IFCHR) && !(found.flags & O_PATH) && major(found.status.st_rdev) == 5 &&
           minor(found.status.st_rdev) == 2;
}

bool is_pipe(const Description& found) {
    return found.is(S_IFIFO) && !(found.flags & O_PATH);
}

// A name of the kernel for what has no file: "anon_inode:[eventpoll]", "socket:[123]".
std::string nameless(const Description& found) {
    const std::size_t colon = found.link.find(':');
    if (found.link.starts_with('/') || colon == std::string::npos) return {};
    std::string name =
        found.link.starts_with("anon_inode:") ? found.link.substr(colon + 1) : found.link.substr(0, colon);
    std::erase_if(name, [](char c) { return c == '[' || c == ']'; });
    return name;
}

}  // namespace

Result<> describe_object(Table& table, const Description& found, schema::Object& object) {
    if (is_pty_master(found)) return describe_pty_master(table, found, object);
    if (is_terminal(found)) return describe_terminal(table, found, object);
    if (is_pipe(found)) return describe_pipe(table, found, object);

    const bool path_only = (found.flags & O_PATH) != 0;
    const std::string name = nameless(found);
    if (!name.empty()) {
        if (found.is(S_IFSOCK) && object.outside) return {};
        return fail_code(ExitCode::refused, "is {} {}: this can't be saved yet; close it before a checkpoint",
                         std::string("aeiou").find(name[0]) == std::string::npos ? "a" : "an", name);
    }
    if (found.link.starts_with("/secretmem"))
        return fail_code(ExitCode::refused,
                         "is a memfd_secret: the kernel lets nobody but the process read it");
    if (found.is(S_IFREG) || found.is(S_IFDIR) || found.is(S_IFCHR) || found.is(S_IFBLK) || path_only)
        return describe_file(table, found, object);
    return fail_code(ExitCode::refused, "is {}, of a kind that can't be saved", found.link);
}

}  // namespace cairn::capture
