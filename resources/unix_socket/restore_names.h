// Names of Unix sockets: paths, which may be relative and belong to files that have to be made again, and
// abstract ones.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "common/error.h"
#include "common/fd.h"
#include "resources/restore/objects.h"

namespace cairn::restart {

// Paths are mapped; a name that would be too long then isn't.
struct UnixName {
    std::string address;  // sockaddr_un; "" unnamed
    std::string folder;   // where a relative path begins; "" absolute
    std::int64_t network =
        -1;  // of an abstract name: Object::network of who has it, as it is a name there only
    [[nodiscard]] bool empty() const { return address.empty(); }
    [[nodiscard]] bool is_path() const;
    [[nodiscard]] std::string path() const;  // whole
    [[nodiscard]] std::string words() const;
    auto operator<=>(const UnixName&) const = default;
};
// `address`: sockaddr_un; `folder`: where it begins if it is a relative path; `network`: Object::network.
[[nodiscard]] UnixName unix_name(const schema::Bytes& address, const std::string& folder,
                                 std::int64_t network, const ObjectSetOptions& options);

// All of these act with the rights that the caller has at the moment: those of who has the socket.
// bind(2). A socket file that nobody listens to any more is removed first; somebody else's that is in use is
// an error that says so.
[[nodiscard]] Result<> bind_unix(int fd, const UnixName& name);
// Is somebody there? connect(2), without waiting.
[[nodiscard]] int connect_unix(int fd, const UnixName& name);
[[nodiscard]] ssize_t send_unix(int fd, const msghdr& message, const UnixName& to);
void unlink_unix(const UnixName& name);
// Mode and owner of the file, as they were; where there was none it goes.
void dress_unix(const UnixName& name, const std::optional<schema::UnixFile>& file);
// The file goes to the path that it had been moved to. A file that nobody listens at goes, anybody else's is
// an error.
[[nodiscard]] Result<> move_unix(const UnixName& name, const std::string& to);

}  // namespace cairn::restart
