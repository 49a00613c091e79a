// What a capture does with the kinds of objects that resources/kinds.h lists, and the refusal of all others.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <ranges>

#include "resources/capture/table.h"
#include "resources/namespace/capture_own.h"
#include "resources/socket/capture.h"

namespace cairn::capture {

namespace {

// A name of the kernel for what has no file: "anon_inode:[eventpoll]", "socket:[123]".
std::string nameless(const Description& found) {
    const std::size_t colon = found.link.find(':');
    if (found.link.starts_with('/') || colon == std::string::npos) return {};
    std::string name =
        found.link.starts_with("anon_inode:") ? found.link.substr(colon + 1) : found.link.substr(0, colon);
    std::erase_if(name, [](char c) { return c == '[' || c == ']'; });
    return name;
}

struct Refused {
    const char* name;
    const char* why;
};
#define CAIRN_REFUSED(kernels, why) {kernels, why},
constexpr Refused refused_kinds[] = {CAIRN_REFUSED_KINDS(CAIRN_REFUSED)};
#undef CAIRN_REFUSED

std::string socket_name(int fd) {
    int domain = 0, style = 0;
    socklen_t length = sizeof domain;
    ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length);
    length = sizeof style;
    ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &style, &length);
    const bool internet = domain == AF_INET || domain == AF_INET6;
    const char* version = domain == AF_INET6 ? " (IPv6)" : "";
    if (internet && style == SOCK_STREAM) return fmt::format("TCP{} socket", version);
    if (internet && style == SOCK_DGRAM) return fmt::format("UDP{} socket", version);
    if (domain == AF_NETLINK) return "netlink socket";
    return fmt::format("socket of family {}, type {}", domain, style);
}

// A description is described by the first kind that it fits. Then, while all still stand, the contents of all
// kinds are captured: what is on its way through sockets may be anything. What takes long and needs nobody to
// stand still is finished when the programs run again.
struct Kind {
    const char* name = nullptr;  // the kernel's, of what has no file; null: is() tells
    Recognize* is = nullptr;
    Describe* describe = nullptr;
    Contents* contents = nullptr;
    Contents* finish = nullptr;
};
#define CAIRN_KIND(saved, capture, restore) {capture},
#define NAMED(kernels) .name = (kernels),
#define IS(function) .is = (function),
#define DESCRIBE(function) .describe = (function),
#define CONTENTS(function) .contents = (function),
#define FINISH(function) .finish = (function),
constexpr Kind kind_lines[] = {CAIRN_KINDS(CAIRN_KIND)};
#undef CAIRN_KIND
#undef NAMED
#undef IS
#undef DESCRIBE
#undef CONTENTS
#undef FINISH
constexpr auto kinds = std::views::reverse(kind_lines);  // why so, resources/kinds.h tells
// With -fsanitize=undefined, GCC 12 takes no comparison of a function with null for a constant.
#ifndef __SANITIZE_ADDRESS__
static_assert(std::ranges::none_of(kind_lines, [](const Kind& kind) {
    return (kind.name != nullptr || kind.is != nullptr) && kind.describe == nullptr;
}));
#endif

bool fits(const Kind& kind, const Looked& it) {
    return kind.name != nullptr ? it.name == kind.name : kind.is != nullptr && kind.is(it);
}

Result<> refuse_kind(const Looked& it) {
    const auto with_article = [](const std::string& what) {
        return fmt::format("is {} {}", std::string("aei").find(what[0]) == std::string::npos ? "a" : "an",
                           what);
    };
    for (const Refused& kind : refused_kinds)
        if (it.name == kind.name)
            return fail_code(ExitCode::refused, "{}: {}", with_article(it.name), kind.why);
    if (!it.name.empty())
        return fail_code(ExitCode::refused, "{}: this can't be saved yet; close it before a checkpoint",
                         with_article(it.found.is(S_IFSOCK) ? socket_name(it.found.fd()) : it.name));
    if (it.found.link.starts_with("/secretmem"))
        return fail_code(ExitCode::refused,
                         "is a memfd_secret: the kernel lets nobody but the process read it");
    return fail_code(ExitCode::refused, "is {}, of a kind that can't be saved", it.found.link);
}

}  // namespace

Looked::Looked(const Description& description) : found(description), name(nameless(description)) {
    if (!found.is(S_IFSOCK) || name.empty()) return;
    domain = socket_option<int>(found.fd(), SOL_SOCKET, SO_DOMAIN);
    style = socket_option<int>(found.fd(), SOL_SOCKET, SO_TYPE);
    protocol = socket_option<int>(found.fd(), SOL_SOCKET, SO_PROTOCOL);
}

Result<> describe_object(Table& table, const Description& found, schema::Object& object) {
    const Looked it(found);
    if (!it.name.empty() && !is_pipe(it)) object.path = found.link;
    if (found.is(S_IFSOCK)) object.network = TRY(own_network_of(table, found));
    for (const Kind& kind : kinds)
        if (fits(kind, it)) return kind.describe(table, found, object);
    return refuse_kind(it);
}

Result<> capture_kinds(Table& table, ImageWriter& writer) {
    for (const Kind& kind : kinds)
        if (kind.contents != nullptr) CHECK_OK(kind.contents(table));
    if (table.options.external == ExternalPolicy::refuse && !table.externals.empty())
        return fail_code(ExitCode::refused, "connected to the outside (--external=refuse):\n{}",
                         fmt::join(table.externals, "\n"));
    return capture_memory(table, writer);
}

Result<> finish_kinds(Table& table) {
    for (const Kind& kind : kinds)
        if (kind.finish != nullptr) CHECK_OK(kind.finish(table));
    return {};
}

}  // namespace cairn::capture
