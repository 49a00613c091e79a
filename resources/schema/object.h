// Kernel objects that more than one process may hold: open file descriptions, files, pipes, terminals, shared
// memory. Saved once for each part of a computation, in its objects image.
#pragma once

#include <optional>
#include <variant>

#include "common/schema/process.h"
#include "resources/kinds.h"

namespace cairn::schema {

template <class None, class... Each>
struct VariantOf {
    using Type = std::variant<Each...>;
};
// What an object is, and what its kind says of it: each in its room's schema.h.
#define CAIRN_KIND(saved, capture, restore) , saved
using What = VariantOf<void CAIRN_KINDS(CAIRN_KIND)>::Type;
#undef CAIRN_KIND

struct Object {
    std::int64_t id = -1;
    std::string path;      // as /proc/PID/fd says, " (deleted)" cut off
    bool deleted = false;  // no name: contents are in a Memory
    FileIdentity identity;
    std::int32_t flags = 0;  // O_* of the description
    std::int64_t position = 0;
    ProgramId owner;                                  // F_SETOWN_EX
    std::int32_t owner_type = 0, owner_signal = 0;    // F_SETOWN_EX, F_SETSIG
    std::optional<std::uint32_t> maker, maker_group;  // pipes and sockets: who has made it, as fstat(2) says
    ProgramFd standard;         // lowest of the descriptors 0, 1, 2 that a process has it at, -1: none
    bool outside = false;       // who holds the other end of this pipe or socket is no member of the group
    std::int64_t backing = -1;  // file: id of the memory object with the contents (deleted file, memfd)
    std::int64_t pipe = -1;     // pipes, FIFOs, sockets: id of the pipe or connection, shared by its ends
    std::int64_t network = -1;  // sockets: id of the network namespace of the group's own, -1: the restart's
    // The same: what is in them, a packet or a message each; else one.
    std::vector<Bytes> contents;

    What what = File{};

    template <class T>
    [[nodiscard]] bool is() const {
        return std::holds_alternative<T>(what);
    }
    // None if it is of another kind.
    template <class T>
    [[nodiscard]] const T* get() const {
        return std::get_if<T>(&what);
    }
    template <class T>
    [[nodiscard]] T* get() {
        return std::get_if<T>(&what);
    }
};

// "file", "eventfd", "tcp"
[[nodiscard]] inline std::string_view kind_of(const Object& object) {
    return std::visit([]<class T>(const T&) { return T::kind; }, object.what);
}

struct Objects {  // root of the objects image
    std::string cid;
    std::int32_t np = 0;
    std::vector<Object> objects;
};

}  // namespace cairn::schema
