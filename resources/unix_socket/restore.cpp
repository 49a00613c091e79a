// Unix sockets: made anew, connected to each other as they were, filled with what was on its way.
#include "resources/socket/restore.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <set>

#include "resources/namespace/restore.h"
#include "resources/restore/lost_folder.h"
#include "resources/restore/opening.h"
#include "resources/unix_socket/restore_names.h"

namespace cairn::restart {
namespace {

using schema::Credentials;
using schema::Object;
using schema::UnixMessage;

struct UnixEnd {
    const Object* object = nullptr;
    const schema::UnixSocket* saved = nullptr;
    UnixName name, peer_name;
    Fd fd;
    Fd stand_in;  // the other end, where no member holds it
    UnixEnd* peer = nullptr;
    bool kept = false;  // finished, and no longer ours
    [[nodiscard]] bool datagrams() const { return saved->style == SOCK_DGRAM; }
    // Nobody's: the tool's own do.
    [[nodiscard]] Credentials peer_credentials() const {
        return saved->peer_credentials.value_or(Credentials());
    }
};

class UnixSockets {
  public:
    explicit UnixSockets(Opening& opening) : opening_(opening) {}

    Result<> open() {
        CHECK_OK(read());
        // A path whose file is gone can have been bound anew by another: those go first, and free it again.
        for (const auto step : {&UnixSockets::make_datagrams, &UnixSockets::connect_pairs,
                                &UnixSockets::connect_lone, &UnixSockets::make_rest})
            CHECK_OK((this->*step)());
        listeners_.clear();
        give_back_names();
        for (const auto step :
             {&UnixSockets::bind_rest, &UnixSockets::fill_unconnected, &UnixSockets::connect_datagrams,
              &UnixSockets::listen, &UnixSockets::connect_pending, &UnixSockets::finish_rest})
            CHECK_OK((this->*step)());
        give_back_names();
        return move_names();
    }

  private:
    // Last: who had to be connected has called by the name that getsockname(2) tells.
    Result<> move_names() {
        for (auto& [id, end] : ends_) {
            if (!end.saved->moved || !(end.datagrams() || unbound_.contains(&end))) continue;
            const auto acting = TRY(as_owner(end.name));
            CHECK_OK(move_unix(end.name, mapped_path(*end.saved->moved, opening_.options)));
        }
        return {};
    }

    void give_back_names() {
        for (const UnixName& name : lent_) unlink(name);
        lent_.clear();
    }

    // Paths are made, removed and called with the rights of who has the socket of that name. Where he can't
    // have made it (root did, before a server gave its rights up, or gave its file away) root does, if nobody
    // else can have had a hand in it.
    Result<ActingAs> as_owner(const UnixName& name) {
        const UnixEnd* owner = nullptr;
        for (const auto& [id, end] : ends_)
            if (end.name == name || (owner == nullptr && end.peer_name == name)) {
                owner = &end;
                if (end.name == name) break;
            }
        if (!name.is_path() || owner == nullptr) return ActingAs::begin(own_rights());
        const Access& access = opening_.options.access;
        const auto& file = owner->saved->file;
        const auto of_file = file ? std::optional<uid_t>(file->uid) : std::nullopt;
        const Rights& rights = access.one_of(owner->object->id, of_file);
        return ActingAs::begin(access.root_may_make(name.path()) ? own_rights() : rights);
    }

    Result<> bind(int fd, const UnixName& name) {
        const auto acting = TRY(as_owner(name));
        auto bound = bind_unix(fd, name);
        if (bound || bound.error().number != ENOENT || !name.is_path() || !name.path().starts_with('/'))
            return bound;
        if (!folder_of_lost(opening_, name.path(), 0700)) return bound;
        return bind_unix(fd, name);
    }

    void unlink(const UnixName& name) {
        if (auto acting = as_owner(name)) unlink_unix(name);
    }

    void dress(const UnixEnd& end) {
        if (auto acting = as_owner(end.name)) dress_unix(end.name, end.saved->file);
    }

    int connect_as_owner(const UnixEnd& end, const UnixName& to) {
        auto acting = ActingAs::begin(opening_.options.access.one_of(end.object->id));
        errno = EACCES;
        return acting ? connect_unix(end.fd.get(), to) : -1;
    }

    Result<> read() {
        for (const Object& object : opening_.objects.objects) {
            const auto* saved = object.get<schema::UnixSocket>();
            if (saved == nullptr) continue;
            if (object.outside && object.contents.empty() && opening_.stand_in(object)) continue;
            UnixEnd& end = ends_[object.id];
            end.object = &object;
            end.saved = saved;
            end.name = unix_name(saved->name, saved->folder, object.network, opening_.options);
            end.peer_name = unix_name(saved->peer_name, saved->folder, object.network, opening_.options);
        }
        std::map<std::int64_t, UnixEnd*> pairs;
        for (auto& [id, end] : ends_) {
            const auto peer = end.saved->peer ? ends_.find(*end.saved->peer) : ends_.end();
            if (peer != ends_.end()) end.peer = &peer->second;
            if (end.object->pipe < 0) continue;
            const auto [first, added] = pairs.emplace(end.object->pipe, &end);
            if (added) continue;
            end.peer = first->second;
            first->second->peer = &end;
        }
        return {};
    }

    [[nodiscard]] Result<Fd> make(int style, std::int64_t network) const {
        Fd made;
        CHECK_OK(in_own_space(opening_, network, [&]() -> Result<> {
            made.reset(::socket(AF_UNIX, style | SOCK_CLOEXEC, 0));
            if (!made) return fail_errno("socket");
            return {};
        }));
        return made;
    }

    Result<> make_pair(UnixEnd& end, Fd& other, const Credentials& who) {
        int pair[2] = {-1, -1};
        std::array<int, 2> made{-1, -1};
        // Made by another process, the numbers are the two lowest that are free here: told by a pipe.
        int told[2];
        if (::pipe2(told, O_CLOEXEC) != 0) return fail_errno("pipe2");
        const Fd read_end(told[0]), write_end(told[1]);
        int problem = 0;
        CHECK_OK(in_own_space(opening_, end.object->network, [&] {
            problem = call_as(who, opening_.options.exact_ids, [&] {
                if (::socketpair(AF_UNIX, end.saved->style | SOCK_CLOEXEC, 0, pair) != 0) return errno;
                return ::write(write_end.get(), pair, sizeof pair) == sizeof pair ? 0 : EIO;
            });
            return Result<>();
        }));
        if (problem != 0 || ::read(read_end.get(), made.data(), sizeof made) != sizeof made) {
            errno = problem;
            return fail_errno("socketpair");
        }
        end.fd.reset(made[0]);
        other.reset(made[1]);
        return {};
    }

    // A datagram socket without a name can only have been reached through a socketpair.
    Result<> make_datagrams() {
        for (auto& [id, end] : ends_) {
            if (!end.datagrams() || end.fd) continue;
            UnixEnd* const peer = end.peer;
            const bool lost = peer == nullptr && end.saved->connected && end.peer_name.empty();
            if (peer != nullptr && !peer->fd &&
                (peer->name.empty() || (peer->peer == &end && end.name.empty()))) {
                CHECK_OK(make_pair(end, peer->fd, end.peer_credentials()));
                paired_.insert({&end, peer});
            } else if (lost) {
                if (auto done = make_pair(end, end.stand_in, end.peer_credentials()); !done) return done;
            } else {
                end.fd = TRY(make(SOCK_DGRAM, end.object->network));
            }
        }
        return {};
    }

    [[nodiscard]] bool somebody_listens_at(const UnixName& name) const {
        return std::ranges::any_of(ends_, [&](const auto& each) {
            return each.second.saved->listening && each.second.name == name;
        });
    }

    // A socket listening at `name` for as long as connections are made: getsockname(2) of what it accepts,
    // and getpeername(2) of who calls, tell its name.
    Result<int> listener_at(const UnixName& name, int style, const Credentials& who) {
        const auto key = std::tuple(name, style, who);
        if (const auto found = listeners_.find(key); found != listeners_.end()) return found->second.get();
        // The same name, listened at by another or in another style: one after the other.
        std::erase_if(listeners_, [&](const auto& each) { return std::get<0>(each.first) == name; });
        if (lent_.contains(name)) unlink(name);
        Fd listener = TRY(make(style, name.network));
        CHECK_OK(bind(listener.get(), name));
        lent_.insert(name);
        const int problem = call_as(who, opening_.options.exact_ids,
                                    [&] { return ::listen(listener.get(), SOMAXCONN) == 0 ? 0 : errno; });
        if (problem != 0) {
            errno = problem;
            return fail_errno("listen");
        }
        return listeners_.emplace(key, std::move(listener)).first->second.get();
    }

    // `caller` connects to `name`, and whoever it is that accepts is put into `answerer`. Credentials: what
    // each is told of the other. Both are of the network of who calls (unix_stream_connect(),
    // net/unix/af_unix.c).
    struct Connecting {
        int style;
        std::int64_t network;
        Credentials callers, answerers;
    };
    Result<> connect(const UnixName& caller_name, Fd& caller, const UnixName& name, Fd& answerer,
                     const Connecting& way) {
        auto listener = TRY(listener_at(name, way.style, way.answerers));
        caller = TRY(make(way.style, way.network));
        if (!caller_name.empty()) CHECK_OK(bind(caller.get(), caller_name));
        const int problem = call_as(way.callers, opening_.options.exact_ids,
                                    [&] { return connect_unix(caller.get(), name) == 0 ? 0 : errno; });
        if (problem != 0) {
            errno = problem;
            return fail_errno("Unix socket {}: connect", name.words());
        }
        answerer.reset(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
        if (!answerer) return fail_errno("Unix socket {}: accept", name.words());
        return {};
    }

    // `peer`: who is at the other end; null: nobody in the group.
    Result<> connect_ends(UnixEnd& end, const UnixName& other_name, Fd& other, const UnixEnd* peer) {
        const Credentials of_other = end.peer_credentials();
        const Credentials of_end = peer != nullptr ? peer->peer_credentials() : Credentials();
        if (end.name.empty() && other_name.empty()) return make_pair(end, other, of_other);
        const bool end_calls = end.name.empty() || (!other_name.empty() && !somebody_listens_at(end.name));
        const int style = end.saved->style;
        const std::int64_t network = end.object->network;
        auto done = end_calls
                        ? connect(end.name, end.fd, other_name, other, {style, network, of_end, of_other})
                        : connect(other_name, other, end.name, end.fd, {style, network, of_other, of_end});
        if (done) {
            // The caller's own file; the listener's goes with the listener.
            if (end_calls)
                dress(end);
            else if (peer != nullptr)
                dress(*peer);
            return {};
        }
        opening_.note(
            "a connected Unix socket can't have its names again ({}): getsockname(2) and getpeername(2) will "
            "not tell them",
            done.error().what);
        return make_pair(end, other, of_other);
    }

    Result<> connect_pairs() {
        for (auto& [id, end] : ends_) {
            if (end.datagrams() || end.kept || end.fd || end.peer == nullptr) continue;
            CHECK_OK(connect_ends(end, end.peer->name, end.peer->fd, end.peer));
            if (end.saved->carries_descriptors() || end.peer->saved->carries_descriptors()) continue;
            UnixEnd* const both[] = {&end, end.peer};
            CHECK_OK(finish(both));
        }
        return {};
    }

    // Who was at the other end has gone, or is outside.
    Result<> connect_lone() {
        for (auto& [id, end] : ends_) {
            const bool lone = end.saved->peer_gone || end.object->outside;
            if (end.datagrams() || end.fd || !lone) continue;
            CHECK_OK(connect_ends(end, end.peer_name, end.stand_in, nullptr));
            if (end.saved->carries_descriptors()) continue;
            UnixEnd* const alone[] = {&end};
            CHECK_OK(finish(alone));
        }
        return {};
    }

    Result<> make_rest() {
        for (auto& [id, end] : ends_) {
            if (end.kept || end.fd) continue;
            end.fd = TRY(make(end.saved->style, end.object->network));
            unbound_.insert(&end);
        }
        return {};
    }

    Result<> bind_rest() {
        std::vector<UnixEnd*> to_bind;
        for (auto& [id, end] : ends_)
            if (!end.name.empty() && (end.datagrams() || unbound_.contains(&end))) to_bind.push_back(&end);
        std::ranges::stable_sort(to_bind, {},
                                 [](const UnixEnd* end) { return end->saved->file.has_value(); });
        for (UnixEnd* end : to_bind) {
            if (lent_.erase(end->name) != 0) unlink(end->name);
            auto bound = bind(end->fd.get(), end->name);
            if (!bound && (!end->name.is_path() || end->saved->file))
                return std::unexpected(std::move(bound.error()));
            if (!bound)
                opening_.note("{}; its file had been removed before the checkpoint", bound.error().what);
            // Who connects or sends to it needs the name; then it goes.
            if (end->saved->file)
                dress(*end);
            else
                lent_.insert(end->name);
        }
        return {};
    }

    // ---- datagrams

    [[nodiscard]] UnixEnd* named(const UnixName& name) {
        for (auto& [id, end] : ends_)
            if (end.datagrams() && end.fd && end.name == name) return &end;
        for (auto& [id, end] : ends_)
            if (end.datagrams() && end.fd && end.name.address == name.address &&
                end.name.network == name.network)
                return &end;
        return nullptr;
    }

    [[nodiscard]] static UnixMessage message_of(const UnixEnd& end, std::size_t index) {
        return index < end.saved->messages.size() ? end.saved->messages[index] : UnixMessage();
    }

    [[nodiscard]] bool from_peer(const UnixEnd& end, std::size_t index) const {
        const std::string from = schema::to_string(message_of(end, index).from);
        if (end.peer == nullptr) return from.empty();
        return end.peer->name.address == from;
    }

    // A connected socket takes only what its peer sends: the rest had come before. Until then nobody is
    // connected, and what comes from a name is sent by who has it.
    Result<> fill_datagrams(UnixEnd& end, bool connected) {
        auto& next = filled_[&end];
        const auto& contents = end.object->contents;
        std::size_t until = contents.size();
        if (!connected && end.peer != nullptr)
            while (until > next && from_peer(end, until - 1)) --until;
        const bool by_pair =
            end.stand_in || paired_.contains({&end, end.peer}) || paired_.contains({end.peer, &end});
        if (!connected && by_pair && end.name.empty()) until = next;
        for (; next < until; ++next) {
            const UnixMessage about = message_of(end, next);
            const std::string from = schema::to_string(about.from);
            Fd temporary;
            int sender = -1;
            UnixName to = end.name;
            UnixName name{from, end.name.folder, -1};
            if (!name.is_path()) name.network = end.object->network;
            UnixEnd* const source = from.empty() ? nullptr : named(name);
            if (end.stand_in && from.empty()) {
                sender = end.stand_in.get();
                to = {};
            } else if (connected && end.peer != nullptr && end.peer->fd && from_peer(end, next)) {
                sender = end.peer->fd.get();
                to = {};
            } else if (source != nullptr) {
                sender = source->fd.get();
            } else {
                temporary = TRY(make(SOCK_DGRAM, end.object->network));
                sender = temporary.get();
                if (!from.empty() && bind(sender, name)) unlink(name);
            }
            auto sent = send(sender, to, contents[next], about, 0);
            if (!sent) return std::unexpected(std::move(sent.error()).in(end.name.words()));
        }
        return {};
    }

    // Who sends is noted where the receiver wants to know.
    static void ask_for_senders(const UnixEnd& end) {
        const int on = 1;
        for (const UnixMessage& each : end.saved->messages)
            if (each.sender) ::setsockopt(end.fd.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    }

    Result<> fill_unconnected() {
        for (auto& [id, end] : ends_) {
            if (!end.datagrams()) continue;
            make_room(end.fd.get(), size_of(*end.object));
            if (end.stand_in) make_room(end.stand_in.get(), size_of(*end.object));
            ask_for_senders(end);
        }
        for (auto& [id, end] : ends_)
            if (end.datagrams() && !end.name.empty()) CHECK_OK(fill_datagrams(end, false));
        return {};
    }

    Result<> connect_datagrams() {
        for (auto& [id, end] : ends_) {
            if (!end.datagrams() || end.stand_in || !end.saved->connected) continue;
            if (end.peer != nullptr && end.peer->name.empty()) continue;
            if (paired_.contains({&end, end.peer}) || paired_.contains({end.peer, &end})) continue;
            if (connect_as_owner(end, end.peer_name) == 0) continue;
            opening_.note("a Unix socket was connected to {}: {}", end.peer_name.words(),
                          std::strerror(errno));
        }
        return {};
    }

    // ---- connections

    Result<> listen() {
        for (auto& [id, end] : ends_) {
            if (!end.saved->listening) continue;
            if (::listen(end.fd.get(), static_cast<int>(end.saved->listening->backlog)) != 0)
                return fail_errno("Unix socket {}: listen", end.name.words());
        }
        return {};
    }

    // They wait in the queue as they did, oldest first.
    Result<> connect_pending() {
        for (auto& [id, end] : ends_) {
            if (!end.saved->listening) continue;
            for (const std::int64_t id_of_client : end.saved->listening->pending) {
                const auto client = ends_.find(id_of_client);
                Fd gone;
                if (client == ends_.end()) gone = TRY(make(end.saved->style, end.name.network));
                const int fd = client == ends_.end() ? gone.get() : client->second.fd.get();
                const Credentials who = client == ends_.end()
                                            ? Credentials()
                                            : client->second.saved->own_credentials.value_or(Credentials());
                const int problem = call_as(who, opening_.options.exact_ids,
                                            [&] { return connect_unix(fd, end.name) == 0 ? 0 : errno; });
                if (problem != 0)
                    opening_.note("a connection that {} hadn't accepted yet can't be made again: {}",
                                  end.name.words(), std::strerror(problem));
            }
        }
        return {};
    }

    // ---- what was on its way

    static std::size_t size_of(const Object& object) {
        std::size_t size = 0;
        for (const schema::Bytes& each : object.contents) size += each.size() + 1024;
        return size;
    }

    // Bytes sent.
    Result<std::size_t> send(int fd, const UnixName& to, const schema::Bytes& data, const UnixMessage& about,
                             std::size_t from) {
        iovec part{const_cast<std::uint8_t*>(data.data() + from), data.size() - from};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        alignas(cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))];  // SCM_MAX_FD
        std::vector<Lent> lent;
        std::vector<int> rights;
        if (from == 0)
            for (const std::int64_t object : about.rights) {
                auto found = opening_.opened.lend(object);
                if (!found) return std::unexpected(std::move(found.error()));
                const auto end = ends_.find(object);
                const int right = *found ? found->get() : end != ends_.end() ? end->second.fd.get() : -1;
                lent.push_back(std::move(*found));
                if (right < 0)
                    return fail(
                        "a descriptor that was on its way can only be opened by a process itself: it can't "
                        "be "
                        "sent again");
                rights.push_back(right);
            }
        if (!rights.empty()) {
            message.msg_control = control;
            message.msg_controllen = CMSG_SPACE(rights.size() * sizeof(int));
            std::memset(control, 0, sizeof control);
            cmsghdr* const header = CMSG_FIRSTHDR(&message);
            header->cmsg_level = SOL_SOCKET;
            header->cmsg_type = SCM_RIGHTS;
            header->cmsg_len = CMSG_LEN(rights.size() * sizeof(int));
            std::memcpy(CMSG_DATA(header), rights.data(), rights.size() * sizeof(int));
        }
        const Credentials sender = about.sender.value_or(Credentials());
        if (!sender.pid.known() || !opening_.options.exact_ids) {
            const ssize_t sent = send_unix(fd, message, to);
            if (sent < 0) return fail_errno("what was on its way ({} bytes) doesn't fit", data.size());
            if (sender.pid.known() && !std::exchange(told_of_senders_, true))
                opening_.note(
                    "what was on its way through a Unix socket comes from this tool's process id now: "
                    "nobody but root may send as another process");
            return static_cast<std::size_t>(sent);
        }
        int told[2];
        if (::pipe2(told, O_CLOEXEC) != 0) return fail_errno("pipe2");
        const Fd read_end(told[0]), write_end(told[1]);
        const int problem = call_as(sender, true, [&] {
            const ssize_t sent = send_unix(fd, message, to);
            if (sent < 0) return errno;
            return ::write(write_end.get(), &sent, sizeof sent) == sizeof sent ? 0 : EIO;
        });
        ssize_t sent = 0;
        if (problem != 0 || ::read(read_end.get(), &sent, sizeof sent) != sizeof sent) {
            errno = problem;
            return fail_errno("what was on its way ({} bytes) doesn't fit", data.size());
        }
        return static_cast<std::size_t>(sent);
    }

    Result<> fill(UnixEnd& end) {
        if (end.datagrams()) return fill_datagrams(end, true);
        if (end.object->contents.empty()) return {};
        const int sender = end.stand_in ? end.stand_in.get() : end.peer ? end.peer->fd.get() : -1;
        if (sender < 0) return {};
        make_room(sender, size_of(*end.object));
        ask_for_senders(end);
        for (std::size_t i = 0; i < end.object->contents.size(); ++i) {
            const schema::Bytes& data = end.object->contents[i];
            std::size_t done = 0;
            do {
                auto sent = send(sender, {}, data, message_of(end, i), done);
                if (!sent) return std::unexpected(std::move(sent.error()).in(end.object->path));
                done += *sent;
            } while (done < data.size());
        }
        return {};
    }

    // A connection is finished as soon as it stands, with its ends together: of thousands of them only one is
    // open here at a time, where the limit of descriptors asks for that.
    Result<> finish(std::span<UnixEnd* const> ends) {
        for (UnixEnd* const end : ends) CHECK_OK(fill(*end));
        for (UnixEnd* const end : ends) {
            if (end->stand_in) {
                // Whoever goes with something unread leaves an error behind.
                if (end->saved->error) (void)!::send(end->fd.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
                if (end->saved->launcher && !end->saved->error)
                    opening_.launchers.emplace(end->object->id, std::move(end->stand_in));
                end->stand_in.reset();
            }
            shut_down(end->fd.get(), end->saved->shutdown);
        }
        for (UnixEnd* const end : ends) {
            set_socket_options(end->fd.get(), end->saved->options, schema::OptionMoment::last);
            set_buffers(end->fd.get(), end->saved->options);
            CHECK_OK(set_flags(end->fd.get(), *end->object));
            CHECK_OK(opening_.keep(*end->object, std::move(end->fd)));
            end->kept = true;
        }
        return {};
    }

    Result<> finish_rest() {
        std::vector<UnixEnd*> rest;
        for (auto& [id, end] : ends_)
            if (!end.kept) rest.push_back(&end);
        return finish(rest);
    }

    Opening& opening_;
    std::map<std::int64_t, UnixEnd> ends_;  // by object
    std::map<std::tuple<UnixName, int, Credentials>, Fd> listeners_;
    std::set<UnixName> lent_;  // names of files that are there for the moment
    std::set<UnixEnd*> unbound_;
    std::set<std::pair<UnixEnd*, UnixEnd*>> paired_;  // by socketpair
    std::map<UnixEnd*, std::size_t> filled_;          // messages
    bool told_of_senders_ = false;
};

}  // namespace

Result<> open_unix_sockets(Opening& opening) {
    CHECK_OK(opening.opened.hand_over());  // the sockets are open at once
    return UnixSockets(opening).open();
}

}  // namespace cairn::restart
