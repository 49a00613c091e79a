// What ObjectTable is made of. Each kind of object has a room of its own, whose capture.cpp fills
// schema::Object from a Description; resources/kinds.h has a line for each.
#pragma once

#include <compare>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <typeindex>

#include "resources/capture/description.h"
#include "resources/socket/capture_diag.h"

namespace cairn::capture {

struct Inode {
    dev_t device = 0;
    ino_t number = 0;
    auto operator<=>(const Inode&) const = default;
};
inline Inode inode_of(const struct stat& status) {
    return {status.st_dev, status.st_ino};
}

struct Table {
    ObjectOptions options;
    std::deque<schema::Object> objects;  // id = index; a deque: references stay valid
    std::vector<std::string> notes;

    Duplicates duplicates;                             // of these:
    std::map<std::int64_t, Description> descriptions;  // object id -> what was found; emptied by release()
    std::map<Inode, std::vector<std::int64_t>>
        known;                            // descriptions of an inode, in the order of kcmp, if it is allowed
    std::map<Inode, std::int64_t> pipes;  // pipe_of()
    SockDiag sock_diag;
    std::vector<std::string> externals;  // connections to the outside, for ExternalPolicy::refuse
    std::set<pid_t> members;             // processes and zombies of the group
    mutable std::map<std::type_index, std::shared_ptr<void>> rooms;  // of()

    // What a room remembers until the end of the checkpoint: one State for each type.
    template <class State>
    [[nodiscard]] State& of() const {
        std::shared_ptr<void>& state = rooms[typeid(State)];
        if (!state) state = std::make_shared<State>();
        return *static_cast<State*>(state.get());
    }
    schema::Object& add(schema::What what);
    // The object of a description: the one that it was found as before, or a new one.
    [[nodiscard]] Result<std::int64_t> enter(Description found);
    [[nodiscard]] ProgramId to_program(KernelId id) const {
        return options.to_program && id.known() ? options.to_program(id) : program_id_of_same_number(id);
    }
    // A connection to the outside: what it is, what a restart makes of it.
    void external(const std::string& what, const std::string& fate);
    // Object::pipe of the pipe or connection with this inode.
    [[nodiscard]] std::int64_t pipe_of(Inode inode) {
        return pipes.try_emplace(inode, static_cast<std::int64_t>(pipes.size())).first->second;
    }
    template <class... Args>
    void note(fmt::format_string<Args...> form, Args&&... args) {
        notes.push_back(fmt::format(form, std::forward<Args>(args)...));
    }
};

// Of all kinds (kinds.cpp).
// Fills everything but id, flags, owner, standard.
[[nodiscard]] Result<> describe_object(Table& table, const Description& found, schema::Object& object);
// What only stands still now; what takes long, when the programs run again.
[[nodiscard]] Result<> capture_kinds(Table& table, ImageWriter& writer);
[[nodiscard]] Result<> finish_kinds(Table& table);

// The rooms' functions that resources/kinds.h names.
using Recognize = bool(const Looked&);
using Describe = Result<>(Table&, const Description&, schema::Object&);
using Contents = Result<>(Table&);
#define CAIRN_KIND(saved, capture, restore) capture
#define NAMED(kernels)
#define IS(function) Recognize function;
#define DESCRIBE(function) Describe function;
#define CONTENTS(function) Contents function;
#define FINISH(function) Contents function;
CAIRN_KINDS(CAIRN_KIND)
#undef CAIRN_KIND
#undef NAMED
#undef IS
#undef DESCRIBE
#undef CONTENTS
#undef FINISH

[[nodiscard]] Result<> capture_memory(Table& table, ImageWriter& writer);

// file/capture.cpp
struct Located {
    std::string path;
    bool deleted = false;  // or has no path that leads to it for us
};
// Where a file is found that the kernel shows as `link`: there, or under another name in the same folder.
[[nodiscard]] Located locate(const std::string& link, const struct stat& status);
// The same of one of which no more is known; some file systems (overlay, btrfs) show another device in a
// mapping than stat(2) does, and nothing is found there.
[[nodiscard]] Located locate(const std::string& link, const Inode& inode);
[[nodiscard]] std::string program_path(const Table& table,
                                       const std::string& path);  // /proc/PID: program's id

// memory/capture.cpp
[[nodiscard]] Result<std::int64_t> back(Table& table, const Description& found, const Located& place);

// packet/capture.cpp
// The socket whose ring this is.
[[nodiscard]] Result<std::int64_t> mapped_packet_ring(const Table& table, const Holder& holder,
                                                      const Mapping& mapping);

// launcher/capture.cpp
void note_rank(Table& table, const Holder& holder, std::span<const schema::Descriptor> descriptors);
// Null: this socket doesn't lead to an MPI launcher (PMI 1).
[[nodiscard]] const schema::LauncherRank* rank_of(const Table& table, std::int64_t socket);
// Is this address (address_words) that of the PMIx server which the process was started with?
[[nodiscard]] bool is_pmix_server(const Holder& holder, const std::string& address);
// A connection to it: what a restart has to know to answer in its place.
[[nodiscard]] Result<schema::LauncherRank> find_pmix_rank(Table& table, const Description& found);
// Is this a file in the folder of a PMIx server outside, which it takes away when it ends?
[[nodiscard]] bool is_launchers_file(Table& table, const Holder& holder, const std::string& path);
// What processes above the members hold; found once for each checkpoint.
struct HeldAbove {
    std::set<ino_t> pipes_read;        // open for reading
    std::set<std::int32_t> terminals;  // masters, in the sessions of members: numbers of /dev/pts
};
[[nodiscard]] const HeldAbove& held_above(Table& table);

// io_uring/capture.cpp
// The object of the ring that is mapped there; every ring of the group is known by now.
[[nodiscard]] Result<std::int64_t> mapped_ring(Table& table, const Holder& holder, const Mapping& mapping);

// lock/capture.cpp: what a descriptor's fdinfo tells of locks.
using Locks = std::vector<schema::FileLock>;
[[nodiscard]] Locks locks_of(const Description& found);
// Of a descriptor of this process (kernel's id) whose description is the first of its kind in it, or in the
// whole group.
void add_locks(Table& table, pid_t holder, const Locks& found, bool new_in_group);
// Before anything opens the file.
void note_leases(Table& table, const Description& found);
[[nodiscard]] bool has_lease(const Table& table, Inode inode);  // opening it would break the lease

}  // namespace cairn::capture
