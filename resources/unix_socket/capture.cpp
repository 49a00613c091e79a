// Unix sockets: connected to each other, listening with connections that nobody has accepted yet, bound,
// alone; with what is on its way through them, descriptors included.
#include "resources/socket/capture.h"

#include <dirent.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>

#include "resources/capture/table.h"
#include "resources/file/schema_identity.h"
#include "resources/namespace/capture_own.h"

namespace cairn::capture {
namespace {

struct UnixFound {
    std::int64_t object = -1;
    UnixDiagnosis diagnosis;
};
struct UnixSocketsFound {
    std::map<ino_t, UnixFound> all;
};

schema::Credentials credentials_of(const Table& table, const ucred& who) {
    return {table.to_program(KernelId(who.pid)), who.uid, who.gid};
}

// A file that has been given another name in its folder since, as supervisord (link) and HAProxy (rename) do,
// so that nobody finds it before it listens.
void follow_file(const std::string& path, const UnixDiagnosis& diagnosis, schema::UnixSocket& saved) {
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()), ::closedir);
    if (!listing) return;
    while (const dirent* entry = ::readdir(listing.get())) {
        if (static_cast<std::uint32_t>(entry->d_ino) != diagnosis.path_inode) continue;
        struct stat status {};
        if (::lstat((folder + entry->d_name).c_str(), &status) != 0 || !S_ISSOCK(status.st_mode) ||
            status.st_dev != diagnosis.path_device)
            continue;
        saved.file = {.mode = status.st_mode & 07777, .uid = status.st_uid, .gid = status.st_gid};
        saved.moved = folder + entry->d_name;
        return;
    }
}

// A name is a path as it was given to bind(2): it may be relative to where its process was then.
void locate_name(const Table& table, const Holder& holder, const UnixDiagnosis& diagnosis,
                 schema::UnixSocket& saved) {
    if (diagnosis.name.empty() || diagnosis.name.front() == 0) return;
    const std::string name = diagnosis.name.c_str();
    const auto here = [&](const std::string& folder) {
        struct stat status {};
        const std::string path = name.front() == '/' ? name : folder + "/" + name;
        if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
        if (static_cast<std::uint32_t>(status.st_ino) != diagnosis.path_inode ||
            status.st_dev != diagnosis.path_device)
            return false;
        saved.file = {.mode = status.st_mode & 07777, .uid = status.st_uid, .gid = status.st_gid};
        return true;
    };
    if (name.front() == '/') {
        if (!here("")) follow_file(name, diagnosis, saved);
        return;
    }
    const auto folder_of = [](const std::string& process) {
        auto folder = read_link(process + "cwd");
        return folder ? *folder : std::string("/");
    };
    saved.folder = folder_of(proc_folder(holder));
    if (here(saved.folder)) return;
    for (const pid_t member : table.members)
        if (const std::string folder = folder_of(fmt::format("/proc/{}/", member)); here(folder)) {
            saved.folder = folder;
            return;
        }
    follow_file(saved.folder + "/" + name, diagnosis, saved);
}

Result<> take_waiting(Table& table, const Description& found, schema::Object& object,
                      schema::UnixSocket& saved) {
    auto messages = look_into(found.fd(), AF_UNIX, saved.style == SOCK_STREAM);
    if (!messages) return std::unexpected(std::move(messages.error()).in(found.who()));
    bool plain = true;
    for (Waiting& message : *messages) {
        schema::UnixMessage each;
        if (saved.style == SOCK_DGRAM) each.from = schema::to_bytes(message.from);
        if (message.sender) each.sender = credentials_of(table, *message.sender);
        for (Fd& right : message.rights) {
            auto description = TRY(describe_in_flight(found.holder, std::move(right), found.who()));
            each.rights.push_back(TRY(table.enter(std::move(description))));
        }
        plain = plain && each.from.empty() && !each.sender && each.rights.empty();
        saved.messages.push_back(std::move(each));
        object.contents.push_back(std::move(message.data));
    }
    if (plain) saved.messages.clear();
    return {};
}

// The byte of MSG_OOB (since Linux 5.15) would have to be put back at its place among the others.
bool has_urgent_byte(int fd) {
    char byte = 0;
    return ::recv(fd, &byte, 1, MSG_OOB | MSG_PEEK | MSG_DONTWAIT) == 1;
}

// Clients whose connection waits to be accepted: inode -> it. What such a client has sent already can't be
// seen by anybody before the connection is accepted. Of one that has closed (unix(7)'s diagnosis shows it as
// 0) the kernel doesn't even tell whether it has sent something, and one that sends, closes and is gone is
// usual: it isn't taken for one that hasn't, but waited for until it is accepted.
Result<> capture_pending(Table& table, const UnixFound& listener, const Description& found,
                         schema::UnixSocket& saved, std::set<ino_t>& embryos) {
    std::vector<std::int64_t>& pending = saved.listening->pending;
    const std::string name = saved.name.empty() ? "" : address_words(schema::to_string(saved.name));
    for (const ino_t client : listener.diagnosis.pending) {
        const auto member = table.of<UnixSocketsFound>().all.find(client);
        if (client == 0) {
            auto problem = fail_code(ExitCode::refused,
                                     "is a listening socket ({}) that hasn't accepted a connection yet whose "
                                     "client has closed it again: what he has sent can't be read before",
                                     name);
            problem.error().passing = true;
            return std::unexpected(std::move(problem.error()).in(found.who()));
        }
        if (member == table.of<UnixSocketsFound>().all.end()) {
            pending.push_back(-1);
            table.note(
                "{} is a listening socket ({}) with a connection from outside the group that it hasn't "
                "accepted: left out",
                found.who(), name);
            continue;
        }
        int unread = 0;
        const Description& end = table.descriptions.at(member->second.object);
        if (::ioctl(end.fd(), SIOCOUTQ, &unread) == 0 && unread > 0) {
            auto problem =
                fail_code(ExitCode::refused,
                          "is connected to {}, who hasn't accepted it yet, and has sent something already: "
                          "nobody can read that before it is accepted",
                          found.who());
            problem.error().passing = true;
            return std::unexpected(std::move(problem.error()).in(end.who()));
        }
        pending.push_back(member->second.object);
        embryos.insert(client);
    }
    return {};
}

Result<> describe_connection(Table& table, ino_t inode, const UnixDiagnosis& diagnosis,
                             const Description& found, const std::set<ino_t>& embryos, schema::Object& object,
                             schema::UnixSocket& saved) {
    const std::string peer_name = peer_address(found.fd());
    if (!peer_name.empty()) {
        saved.peer_name = schema::to_bytes(peer_name);
        const auto who = socket_option<ucred>(found.fd(), SOL_SOCKET, SO_PEERCRED);
        if (who.pid != 0) saved.peer_credentials = credentials_of(table, who);
        saved.connected = true;
    }
    const bool datagrams = saved.style == SOCK_DGRAM;
    const auto peer = diagnosis.peer == 0 ? table.of<UnixSocketsFound>().all.end()
                                          : table.of<UnixSocketsFound>().all.find(diagnosis.peer);
    if (peer != table.of<UnixSocketsFound>().all.end()) {
        saved.peer = peer->second.object;
        if (peer->second.diagnosis.peer != inode) return {};  // datagrams in one direction
        // Sockets and pipes share one number space; sockfs has a device of its own.
        const Inode pair{found.status.st_dev, std::min(inode, diagnosis.peer)};
        object.pipe = table.pipe_of(pair);
        return {};
    }
    if (!saved.connected) return {};
    if (embryos.contains(inode)) {
        // What its listener will be told of it: who connects is who has it, as far as anybody can tell.
        struct stat process {};
        if (::stat(proc_folder(found.holder).c_str(), &process) == 0)
            saved.own_credentials =
                credentials_of(table, ucred{found.holder.pid, process.st_uid, process.st_gid});
        return {};
    }
    pollfd polled{found.fd(), 0, 0};
    ::poll(&polled, 1, 0);
    saved.error = (polled.revents & POLLERR) != 0;
    if (diagnosis.peer == 0 && (datagrams || diagnosis.shutdown == (shut_receive | shut_send))) {
        saved.peer_gone = true;
        return {};
    }
    object.outside = true;
    if (object.standard.known()) return {};
    if (const auto* rank = rank_of(table, object.id); rank != nullptr && !datagrams) {
        saved.launcher = *rank;
        table.external(fmt::format("{} is the connection of an MPI program (rank {} of {}) to its launcher",
                                   found.who(), rank->rank, rank->size),
                       "the restart answers in its place");
        return {};
    }
    table.external(fmt::format("{} is a Unix socket connected to {}", found.who(), address_words(peer_name)),
                   datagrams ? "a restart connects it to whoever has that name then"
                             : "after a restart it sees that its peer has gone");
    return {};
}

}  // namespace

bool is_unix_socket(const Looked& it) {
    return it.domain == AF_UNIX;
}

Result<> describe_unix_socket(Table& table, const Description& found, schema::Object& object) {
    const int style = socket_option<int>(found.fd(), SOL_SOCKET, SO_TYPE);
    const bool listening = socket_option<int>(found.fd(), SOL_SOCKET, SO_ACCEPTCONN) != 0;
    SockDiag* const diag = TRY(sock_diag_of(table, object.network));
    auto diagnosis = diag->unix_socket(found.status.st_ino, listening);
    if (!diagnosis) return std::unexpected(std::move(diagnosis.error()).in("is a Unix socket"));
    if (style == SOCK_STREAM && has_urgent_byte(found.fd())) {
        auto error = fail_code(
            ExitCode::refused,
            "is a Unix socket with an urgent byte in it (MSG_OOB); once that is read it can be saved");
        error.error().passing = true;
        return error;
    }
    object.identity = identity_of(found.status);
    auto& saved = object.what.emplace<schema::UnixSocket>();
    saved.style = style;
    saved.shutdown = diagnosis->shutdown;
    if (!diagnosis->name.empty()) {
        saved.name = schema::to_bytes(own_address(found.fd()));
        locate_name(table, found.holder, *diagnosis, saved);
    }
    if (listening) saved.listening.emplace().backlog = diagnosis->backlog;
    saved.options = socket_options_of(found.fd());
    table.of<UnixSocketsFound>().all[found.status.st_ino] = {object.id, std::move(*diagnosis)};
    return {};
}

Result<> capture_unix_sockets(Table& table) {
    // Descriptors in flight may be sockets in which others are.
    std::set<ino_t> done;
    for (std::size_t before = 0; before != table.of<UnixSocketsFound>().all.size();) {
        before = table.of<UnixSocketsFound>().all.size();
        std::vector<std::int64_t> fresh;  // looking at them may add to the map
        for (const auto& [inode, socket] : table.of<UnixSocketsFound>().all)
            if (done.insert(inode).second) fresh.push_back(socket.object);
        // What is found in them is numbered in this order, and inodes are in none: each processor has its
        // own.
        std::ranges::sort(fresh);
        for (const std::int64_t id : fresh) {
            schema::Object& object = table.objects[static_cast<std::size_t>(id)];
            auto& saved = *object.get<schema::UnixSocket>();
            if (!saved.listening) CHECK_OK(take_waiting(table, table.descriptions.at(id), object, saved));
        }
    }
    std::set<ino_t> embryos;
    for (const bool listening : {true, false})
        for (const auto& [inode, socket] : table.of<UnixSocketsFound>().all) {
            schema::Object& object = table.objects[static_cast<std::size_t>(socket.object)];
            auto& saved = *object.get<schema::UnixSocket>();
            const Description& found = table.descriptions.at(socket.object);
            if (saved.listening.has_value() != listening) continue;
            CHECK_OK(listening ? capture_pending(table, socket, found, saved, embryos)
                               : describe_connection(table, inode, socket.diagnosis, found, embryos, object,
                                                     saved));
        }
    return {};
}

}  // namespace cairn::capture
