// One open file description, looked at from outside.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/fd.h"
#include "resources/capture/duplicates.h"
#include "resources/capture/objects.h"

namespace cairn::capture {

struct Description {
    Holder holder;
    ProgramFd number;                  // the descriptor by which it was first found
    mutable Fd duplicate;              // ours, of the same open file description
    mutable std::uint64_t used = 0;    // when it was asked for last, as Duplicates counts
    Duplicates* duplicates = nullptr;  // which may take that away for the time
    struct stat status {};
    int flags = 0;         // F_GETFL
    std::string link;      // what /proc/PID/fd/NUMBER leads to
    std::string info;      // /proc/PID/fdinfo/NUMBER
    std::string waits_in;  // sent through a socket and not received: that socket's who(); it has no number

    // Good until some others have been asked for theirs.
    [[nodiscard]] int fd() const {
        if (duplicates != nullptr) duplicates->use(*this);
        return duplicate.get();
    }
    [[nodiscard]] bool is(mode_t format) const { return (status.st_mode & S_IFMT) == format; }
    [[nodiscard]] std::string who() const;  // "123 (bash): descriptor 7"
};

// What tells of which kind it is.
struct Looked {
    const Description& found;
    std::string name;                            // the kernel's, of what has no file: "eventfd"
    int domain = -1, style = -1, protocol = -1;  // of a socket

    explicit Looked(const Description& description);
    [[nodiscard]] bool internet() const { return domain == AF_INET || domain == AF_INET6; }
    [[nodiscard]] bool is_device(unsigned number, unsigned second) const {
        return major(found.status.st_rdev) == number && minor(found.status.st_rdev) == second;
    }
    [[nodiscard]] bool opened(mode_t format) const { return found.is(format) && !(found.flags & O_PATH); }
};

// "123 (bash)"
[[nodiscard]] std::string name_of(const Holder& holder);

// "/proc/123/task/124/": of a living thread, since /proc/123/fd is empty once the main thread has exited.
[[nodiscard]] std::string proc_folder(const Holder& holder);

// The value of "key:\tvalue" in a file of fdinfo; nothing if the key isn't there.
[[nodiscard]] std::optional<std::string_view> info_field(std::string_view info, std::string_view key);
[[nodiscard]] std::uint64_t info_number(std::string_view info, std::string_view key, int base = 10);

[[nodiscard]] Result<std::string> read_link(const std::string& path);
[[nodiscard]] Result<std::string> read_text(const std::string& path);

// The descriptors of a process, lowest first.
[[nodiscard]] Result<std::vector<ProgramFd>> list_descriptors(const Holder& holder);

// Everything about one descriptor, of which `duplicate` is one. close_on_exec is the descriptor's, not the
// description's.
[[nodiscard]] Result<Description> describe(const Holder& holder, ProgramFd number, Result<Fd> duplicate,
                                           bool& close_on_exec);

// The same of a duplicate that we have already: one that was sent through the socket `where`, and that nobody
// has received.
[[nodiscard]] Result<Description> describe_in_flight(const Holder& holder, Fd duplicate,
                                                     const std::string& where);

// Are they the same open file description? As an order: kcmp(2).
[[nodiscard]] Result<int> compare(const Description& a, const Description& b);

// A new description of the same file, for reading from its begin; none if the file can't be opened so.
[[nodiscard]] Fd reopen(int fd, int flags);

}  // namespace cairn::capture
