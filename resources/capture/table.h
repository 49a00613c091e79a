// What ObjectTable is made of. Each kind of object has a room of its own, whose capture.cpp fills
// schema::Object from a Description; kinds.cpp says which kind a description is of.
#pragma once

#include <compare>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "resources/capture/description.h"
#include "resources/inotify/capture_find_inode.h"
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

// An inode whose contents are saved: where they can be read.
struct Memory {
    std::int64_t object = -1;
    Fd readable;  // none: only through the mappings
    std::vector<std::pair<Holder, Mapping>> mappings;
};

struct Table {
    ObjectOptions options;
    std::deque<schema::Object> objects;  // id = index; a deque: references stay valid
    std::vector<std::string> notes;

    Duplicates duplicates;                             // of these:
    std::map<std::int64_t, Description> descriptions;  // object id -> what was found; emptied by release()
    std::map<Inode, std::vector<std::int64_t>> known;  // descriptions of an inode, in the order of kcmp
    std::map<std::pair<Inode, std::string>, std::int64_t> files;  // not descriptions: mapped, executed, cwd
    std::map<Inode, Memory> memories;
    std::vector<std::pair<std::int64_t, int>> unattached;  // System V segments: object, kernel's id
    std::map<Inode, std::int64_t> pipes;                   // id of the pipe
    std::map<dev_t, std::int64_t> terminals;  // device -> an object of kind terminal or pty_slave
    std::map<dev_t, std::int64_t> pairs;      // device of the slave -> Object::pty
    SockDiag sock_diag;
    struct UnixSocket {
        std::int64_t object = -1;
        UnixDiagnosis diagnosis;
    };
    std::map<ino_t, UnixSocket> unix_sockets;
    std::map<std::int64_t, schema::LauncherRank> ranks;  // sockets that lead to an MPI launcher (PMI 1)
    struct HeldAbove {
        std::set<ino_t> pipes_read;        // open for reading
        std::set<std::int32_t> terminals;  // masters, in the sessions of members: numbers of /dev/pts
    };
    std::optional<HeldAbove> above;                  // held_above()
    std::map<pid_t, std::string> launchers_folders;  // is_launchers_file()
    std::vector<std::int64_t> tcp_sockets;
    // Whom members speak to that are on no descriptor of this host, and where they can be called: matched
    // with other hosts' when all stand still (resources/tcp/capture_links.h). "tcp" or "udp" and a plain
    // address.
    struct Call {
        std::string to;
        std::int64_t object = -1;  // a TCP socket that is being connected; -1: nothing to be done for it
        std::string what, fate;    // if nobody is found: for external()
    };
    struct Reached {
        std::string at;
        std::int64_t object = -1;  // a TCP socket that listens
    };
    std::vector<Call> calls;
    std::vector<Reached> reached;
    std::vector<std::string> externals;  // connections to the outside, for ExternalPolicy::refuse
    std::vector<std::pair<std::int64_t, pid_t>> pidfds;  // object, kernel's pid
    struct Watch {
        std::int32_t number = 0;
        std::uint32_t mask = 0;
        WantedInode wanted;
        std::int64_t object = -1;  // of a file without a name
        // A mark of a fanotify: FAN_MARK_MOUNT, FAN_MARK_FILESYSTEM or 0 (an inode), where it is mounted,
        // how.
        unsigned of = 0, mark_flags = 0, ignored = 0;
        std::string place;
    };
    struct Watcher {
        std::int64_t object = -1;
        std::string who;
        std::vector<Watch> watches;
        std::vector<std::string> folders;  // where to look first
    };
    std::vector<Watcher> watchers;                      // inotify, fanotify
    std::map<ino_t, std::vector<std::int64_t>> queues;  // POSIX message queues: their descriptions
    std::map<std::pair<pid_t, ino_t>, std::uint64_t> notifications;  // values that mq_notify(3) was given
    std::map<pid_t, std::vector<schema::FileLock>> locks;            // by process, kernel's id
    std::set<Inode> leased;   // opening one of these would break a lease
    std::set<pid_t> members;  // processes and zombies of the group

    schema::Object& add(schema::ObjectKind kind);
    // The object of a description: the one that it was found as before, or a new one.
    [[nodiscard]] Result<std::int64_t> enter(Description found);
    [[nodiscard]] pid_t to_program(pid_t id) const {
        return options.to_program && id > 0 ? options.to_program(id) : id;
    }
    // A connection to the outside: what it is, what a restart makes of it.
    void external(const std::string& what, const std::string& fate);
    // To the outside, unless it is a member's on another host.
    void call(Call whom);
    template <class... Args>
    void note(fmt::format_string<Args...> form, Args&&... args) {
        notes.push_back(fmt::format(form, std::forward<Args>(args)...));
    }
};

// kinds.cpp: fills everything but id, flags, owner, standard.
[[nodiscard]] Result<> describe_object(Table& table, const Description& found, schema::Object& object);

// file/capture.cpp
struct Located {
    std::string path;
    bool deleted = false;  // or has no path that leads to it for us
};
[[nodiscard]] Located locate(const std::string& link, const struct stat& status);
[[nodiscard]] Result<> describe_file(Table& table, const Description& found, schema::Object& object);
[[nodiscard]] std::string program_path(const Table& table,
                                       const std::string& path);  // /proc/PID: program's id

// memory/capture.cpp
[[nodiscard]] Memory& memory_of(Table& table, Inode inode, const std::string& type);
[[nodiscard]] Result<std::int64_t> back(Table& table, const Description& found, const Located& place);
[[nodiscard]] Result<> capture_memory(Table& table, ImageWriter& writer);

// pipe/capture.cpp
[[nodiscard]] Result<> describe_pipe(Table& table, const Description& found, schema::Object& object);
[[nodiscard]] Result<> capture_pipes(Table& table);

// launcher/capture.cpp
void note_rank(Table& table, const Holder& holder, std::span<const schema::Descriptor> descriptors);
// Is this address (address_words) that of the PMIx server which the process was started with?
[[nodiscard]] bool is_pmix_server(const Holder& holder, const std::string& address);
// A connection to it: what a restart has to know to answer in its place.
[[nodiscard]] Result<schema::LauncherRank> find_pmix_rank(Table& table, const Description& found);
// Is this a file in the folder of a PMIx server outside, which it takes away when it ends?
[[nodiscard]] bool is_launchers_file(Table& table, const Holder& holder, const std::string& path);
// What processes above the members hold; found once for each checkpoint.
[[nodiscard]] const Table::HeldAbove& held_above(Table& table);

// terminal/capture.cpp
[[nodiscard]] Result<> describe_pty_master(Table& table, const Description& found, schema::Object& object);
[[nodiscard]] Result<> describe_terminal(Table& table, const Description& found, schema::Object& object);
[[nodiscard]] Result<> capture_terminals(Table& table);

// lock/capture.cpp: what a descriptor's fdinfo tells of locks.
using Locks = std::vector<schema::FileLock>;
[[nodiscard]] Locks locks_of(const Description& found);
// Of a descriptor whose description is the first of its kind in its process, or in the whole group.
void add_locks(const Locks& found, bool new_in_group, std::vector<schema::FileLock>& locks);
// Before anything opens the file.
[[nodiscard]] Result<> note_leases(Table& table, const Description& found);

// Kinds of ObjectKind::other, a file each
[[nodiscard]] Result<> describe_eventfd(Table& table, const Description& found, schema::Object& object);
[[nodiscard]] Result<> describe_signalfd(Table& table, const Description& found, schema::Object& object);
[[nodiscard]] Result<> describe_timerfd(Table& table, const Description& found, schema::Object& object);
[[nodiscard]] Result<> describe_pidfd(Table& table, const Description& found, schema::Object& object);
void finish_pidfds(Table& table);
[[nodiscard]] Result<> describe_mqueue(Table& table, const Description& found, schema::Object& object);
[[nodiscard]] Result<> capture_mqueues(Table& table);
[[nodiscard]] Result<> capture_timerfds(Table& table);
[[nodiscard]] Result<> capture_epolls(Table& table);
[[nodiscard]] Result<> describe_epoll(Table& table, const Description& found, schema::Object& object);
[[nodiscard]] Result<> describe_inotify(Table& table, const Description& found, schema::Object& object);
[[nodiscard]] Result<> describe_fanotify(Table& table, const Description& found, schema::Object& object);
void read_handle(const std::string& line, WantedInode& wanted);  // of a line of fdinfo
[[nodiscard]] dev_t superblock_device(unsigned kernels);         // as fdinfo shows it
void watch_open_files(Table& table);                             // when all descriptors are known
[[nodiscard]] Result<> finish_watches(Table& table);             // takes long
[[nodiscard]] Result<> describe_unix_socket(Table& table, const Description& found, schema::Object& object);
[[nodiscard]] Result<> capture_unix_sockets(Table& table);
[[nodiscard]] Result<> describe_tcp_socket(Table& table, const Description& found, schema::Object& object);
[[nodiscard]] Result<> capture_tcp_sockets(Table& table);
[[nodiscard]] Result<> describe_datagram_socket(Table& table, const Description& found,
                                                schema::Object& object);
[[nodiscard]] Result<> describe_packet_socket(Table& table, const Description& found, schema::Object& object);
[[nodiscard]] Result<> describe_netlink_socket(Table& table, const Description& found,
                                               schema::Object& object);

}  // namespace cairn::capture
