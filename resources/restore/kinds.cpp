#include "resources/restore/kinds.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <type_traits>
#include <variant>

#include "resources/restore/other.h"
#include "resources/system_v/restore.h"

namespace cairn::restart {
namespace {

using schema::Object;

// An error has to say which object it is of.
Result<> with_name(const Object& object, Result<> done) {
    if (done) return done;
    return std::unexpected(
        std::move(done.error()).in(object.path.empty() ? schema::kind_of(object) : object.path));
}

// Objects that are opened on their own: by `open`, which takes what it needs of these.
template <class Saved, auto open>
Result<> one_by_one(Opening& opening) {
    const auto make = [&](const Object& object, const Saved& saved) -> Result<Fd> {
        if constexpr (std::is_invocable_v<decltype(open)>)
            return open();
        else if constexpr (std::is_invocable_v<decltype(open), const Saved&>)
            return open(saved);
        else if constexpr (std::is_invocable_v<decltype(open), Opening&, const Saved&>)
            return open(opening, saved);
        else if constexpr (std::is_invocable_v<decltype(open), const Object&>)
            return open(object);
        else
            return open(opening, object, saved);
    };
    const auto open_one = [&](const Object& object, const Saved& saved) -> Result<> {
        const Fd fd = TRY(make(object, saved));
        if (::fcntl(fd.get(), F_SETFL, object.flags & ~O_ASYNC) != 0) return fail_errno("F_SETFL");
        return opening.keep_copy(object, fd.get());
    };
    for (const Object& object : opening.objects.objects)
        if (const auto* saved = object.get<Saved>(); saved != nullptr && !is_late(object))
            CHECK_OK(with_name(object, open_one(object, *saved)));
    return {};
}

// Sockets of a kind are open at once.
template <auto open>
Result<> together(Opening& opening) {
    CHECK_OK(opening.opened.hand_over());
    return open(opening);
}

// The ends of each pipe (or terminal), which `open` gets together.
template <auto id_of, auto open>
Result<> in_groups(Opening& opening) {
    std::map<std::int64_t, std::vector<const Object*>> groups;
    for (const Object& object : opening.objects.objects)
        if (const std::int64_t id = id_of(object); id >= 0) groups[id].push_back(&object);
    for (const auto& [id, ends] : groups) CHECK_OK(open(opening, ends));
    return {};
}

std::int64_t pipe_of(const Object& object) {
    return object.is<schema::Pipe>() || object.is<schema::Fifo>() ? object.pipe : -1;
}

std::int64_t pair_of(const Object& object) {
    const auto* terminal = schema::terminal_in(object.what);
    return terminal == nullptr ? -1 : terminal->pair;
}

// Deleted executables can't be executed as long as anybody has them open for writing.
Result<> make_read_only(Opening& opening) {
    for (const Object& object : opening.objects.objects) {
        if (!object.is<schema::Memory>() || (object.flags & O_ACCMODE) != O_RDONLY || is_system_v(object))
            continue;
        const int fd = opening.opened.here(object.id);
        const Fd again(::open(fd_path(fd).c_str(), O_RDONLY | O_CLOEXEC));
        if (!again) return fail_errno("{}", object.path);
        CHECK_OK(opening.keep_copy(object, again.get()));
    }
    return {};
}

Result<> open_files(Opening& opening, bool backed) {
    for (const Object& object : opening.objects.objects)
        if (object.is<schema::File>() && (object.backing >= 0) == backed)
            CHECK_OK(open_file(opening, object));
    return {};
}

// And what is made of it: files that it backs.
Result<> open_memories(Opening& opening) {
    for (const Object& object : opening.objects.objects)
        if (object.is<schema::Memory>() && !is_system_v(object))
            CHECK_OK(with_name(object, open_memory(opening, object)));
    CHECK_OK(open_files(opening, true));
    CHECK_OK(make_read_only(opening));
    // Nothing is made of another one's memory any more.
    opening.opened.open_doors();
    return {};
}

Result<> set_up_outer(const Object& object, int fd, AfterForest& after) {
    const std::int64_t pair = object.get<schema::Terminal>()->terminal.pair;
    if (!after.options.terminal_modes || ::isatty(fd) == 0 || !after.terminals.insert(pair).second) return {};
    if (auto done = set_up_terminal(object, fd); !done) after.notes.push_back(done.error().what);
    return {};
}

using FindObject = std::function<int(std::int64_t object)>;

struct Kind {
    std::size_t kind;                                                   // which of schema::What
    Result<> (*open)(Opening&) = nullptr;                               // all of the kind
    Result<> (*set_up)(const Object&, int fd, AfterForest&) = nullptr;  // AfterForest
    Result<> (*watch)(const Object&, int fd, const ObjectSetOptions&, const FindObject&) = nullptr;
};

template <class Saved, class... Each>
constexpr std::size_t place_in(const std::variant<Each...>*) {
    std::size_t place = 0;
    (void)((std::is_same_v<Saved, Each> || (++place, false)) || ...);
    return place;
}
template <class Saved>
constexpr std::size_t which = place_in<Saved>(static_cast<const schema::What*>(nullptr));

// A line for each kind, in the order in which they are opened: files may be backed by memory; what was on its
// way through sockets, which come last, may be anything. Without open(): another line's does it, or a process
// itself.
constexpr Kind kinds[] = {
    {which<schema::Memory>, open_memories,
     [](const Object& object, int fd, AfterForest&) { return seal(object, fd, true); }},
    {which<schema::File>, [](Opening& opening) { return open_files(opening, false); }},
    {which<schema::Pipe>, in_groups<pipe_of, open_pipe>},
    {which<schema::Fifo>},                                          // as pipes
    {which<schema::Epoll>, one_by_one<schema::Epoll, open_epoll>},  // ObjectSet::install() fills it
    {which<schema::Eventfd>, one_by_one<schema::Eventfd, open_eventfd>},
    {which<schema::Signalfd>, one_by_one<schema::Signalfd, open_signalfd>},
    {which<schema::Timerfd>, one_by_one<schema::Timerfd, open_timerfd>,
     [](const Object& object, int fd, AfterForest& after) {
         return arm_timerfd(*object.get<schema::Timerfd>(), fd, after.ahead);
     }},
    {which<schema::Pidfd>, one_by_one<schema::Pidfd, open_dead_pidfd>},
    {which<schema::Inotify>, one_by_one<schema::Inotify, open_inotify>, nullptr,
     [](const Object& object, int fd, const ObjectSetOptions& options, const FindObject& find) {
         return watch_files(object, *object.get<schema::Inotify>(), fd, options, find);
     }},
    {which<schema::Fanotify>, one_by_one<schema::Fanotify, open_fanotify>, nullptr,
     [](const Object& object, int fd, const ObjectSetOptions& options, const FindObject& find) {
         return mark_files(object, *object.get<schema::Fanotify>(), fd, options, find);
     }},
    {which<schema::Mqueue>, one_by_one<schema::Mqueue, open_mqueue>},
    {which<schema::Namespace>, one_by_one<schema::Namespace, open_namespace>},
    {which<schema::Netlink>, one_by_one<schema::Netlink, open_netlink>},
    {which<schema::Packet>, one_by_one<schema::Packet, open_packet_socket>},
    {which<schema::Semaphores>},    // system_v/restore.h
    {which<schema::MessageQueue>},  // the same
    {which<schema::Terminal>, in_groups<pair_of, open_terminal>, set_up_outer},
    {which<schema::PtyMaster>},  // as terminals
    {which<schema::PtySlave>},
    {which<schema::Tcp>, together<open_tcp_sockets>},
    {which<schema::Datagram>, together<open_datagram_sockets>},
    {which<schema::UnixSocket>, together<open_unix_sockets>},
};

constexpr bool each_has_one_line() {
    for (std::size_t kind = 0; kind < std::variant_size_v<schema::What>; ++kind)
        if (std::ranges::count(kinds, kind, &Kind::kind) != 1) return false;
    return true;
}
static_assert(each_has_one_line());

const Kind& line_of(const Object& object) {
    return *std::ranges::find(kinds, object.what.index(), &Kind::kind);
}

}  // namespace

Result<> open_kinds(Opening& opening) {
    for (const Kind& kind : kinds)
        if (kind.open != nullptr) CHECK_OK(kind.open(opening));
    return {};
}

Result<> set_up_kind(const Object& object, int fd, AfterForest& after) {
    const Kind& kind = line_of(object);
    return kind.set_up == nullptr ? Result<>() : kind.set_up(object, fd, after);
}

bool is_watcher(const Object& object) {
    return line_of(object).watch != nullptr;
}

Result<> begin_watching(const Object& object, int fd, const ObjectSetOptions& options,
                        const std::function<int(std::int64_t object)>& fd_of) {
    return line_of(object).watch(object, fd, options, fd_of);
}

}  // namespace cairn::restart
