// Pairs of pseudo-terminals, and the terminal that the programs were started from.
#include <asm/termbits.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "common/terminal_queue.h"
#include "resources/restore/opening.h"

namespace cairn::restart {
namespace {

using schema::Object;

constexpr const char* multiplexer = "/dev/ptmx";

int index_of(int master) {
    int index = -1;
    return ::ioctl(master, TIOCGPTN, &index) == 0 ? index : -1;
}

// A master with the same number if it is free: the kernel gives the lowest free one, so those below are taken
// for the moment as well.
Result<Fd> open_master(int wanted, int flags) {
    constexpr int most = 256;
    std::vector<Fd> below;
    Fd first;
    for (int tries = 0; tries < most; ++tries) {
        Fd master(::open(multiplexer, flags | O_NOCTTY));
        if (!master) {
            if (first) return first;
            return fail_errno("{}", multiplexer);
        }
        const int index = index_of(master.get());
        if (index == wanted) return master;
        if (!first)
            first = std::move(master);
        else
            below.push_back(std::move(master));
        if (index < 0 || index > wanted) break;
    }
    return first;
}

const schema::TerminalState& state_of(const Object& object) {
    return *schema::terminal_in(object.what);
}

Result<> set_up_terminal(const Object& object, int fd) {
    const schema::TerminalState& saved = state_of(object);
    if (saved.termios.size() == sizeof(termios2)) {
        termios2 settings{};
        std::memcpy(&settings, saved.termios.data(), sizeof settings);
        if (::ioctl(fd, TCSETS2, &settings) != 0) return fail_errno("{}: settings (TCSETS2)", object.path);
    }
    // The size of a terminal that somebody looks at is his, not the image's.
    if (saved.winsize.size() == sizeof(winsize) && !object.is<schema::Terminal>()) {
        winsize size{};
        std::memcpy(&size, saved.winsize.data(), sizeof size);
        if (::ioctl(fd, TIOCSWINSZ, &size) != 0) return fail_errno("{}: size (TIOCSWINSZ)", object.path);
    }
    return {};
}

Result<> fill_queues(const Group& ends, int master) {
    const schema::Bytes *typed = nullptr, *printed = nullptr;
    for (const Object* end : ends)
        if (const auto& input = state_of(*end).input; !input.empty())
            (end->is<schema::PtyMaster>() ? printed : typed) = &input;
    if (!typed && !printed) return {};
    const Fd slave(::ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
    if (!slave) return fail_errno("the slave of a pseudo-terminal can't be opened");
    if (typed) CHECK_OK(put_typed(master, slave.get(), *typed));
    if (printed) CHECK_OK(put_printed(master, slave.get(), *printed));
    return {};
}

// Only root gives it to another user, and only to groups of his own does a user give it.
void give_name(Opening& opening, const schema::PtyMaster& saved, int master) {
    const Fd slave(::ioctl(master, TIOCGPTPEER, O_PATH | O_CLOEXEC));
    struct stat now {};
    if (!slave || ::fstat(slave.get(), &now) != 0) return;
    const uid_t owner = saved.owner.value_or(now.st_uid);
    const gid_t group = saved.group.value_or(now.st_gid);
    const bool given = (owner == now.st_uid && group == now.st_gid) ||
                       ::fchownat(slave.get(), "", owner, group, AT_EMPTY_PATH) == 0;
    // chown(2) may have taken bits away.
    const bool allowed = !saved.mode || ::chmod(fd_path(slave.get()).c_str(), *saved.mode) == 0;
    if (!given || !allowed)
        opening.note("/dev/pts/{} belonged to {}:{} with mode {:o}: it belongs to {}:{} now",
                     index_of(master), owner, group, saved.mode.value_or(now.st_mode & 07777U), now.st_uid,
                     now.st_gid);
}

Result<> open_pair(Opening& opening, const Group& ends) {
    Fd first_master;
    std::vector<const Object*> slaves;
    std::vector<Fd> exclusive;
    const auto keep = [&](const Object& end, Fd fd) {
        if (state_of(end).exclusive.value_or(false))
            exclusive.emplace_back(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
        return opening.keep(end, std::move(fd));
    };
    for (const Object* end : ends) {
        if (!end->is<schema::PtyMaster>()) {
            slaves.push_back(end);
            continue;
        }
        const int wanted = state_of(*end).index;
        // More than one description of a master can't be: each open of /dev/ptmx makes a new pair.
        if (first_master)
            return fail_code(ExitCode::damaged, "two masters of the pseudo-terminal /dev/pts/{}", wanted);
        auto master = TRY(open_master(wanted, reopen_flags(end->flags) | O_CLOEXEC));
        const int index = index_of(master.get());
        if (index != wanted)
            opening.note("the pseudo-terminal /dev/pts/{} comes back as /dev/pts/{}: its number is taken",
                         wanted, index);
        int off = 0;
        ::ioctl(master.get(), TIOCSPTLCK, &off);
        CHECK_OK(set_up_terminal(*end, master.get()));
        first_master.reset(::fcntl(master.get(), F_DUPFD_CLOEXEC, 0));
        CHECK_OK(keep(*end, std::move(master)));
    }
    for (const Object* end : slaves) {
        Fd slave(::ioctl(first_master.get(), TIOCGPTPEER, reopen_flags(end->flags) | O_NOCTTY));
        if (!slave) return fail_errno("the slave of {} can't be opened", end->path);
        CHECK_OK(keep(*end, std::move(slave)));
    }
    CHECK_OK(fill_queues(ends, first_master.get()));
    for (const Object* end : ends) {
        int on = 1;
        const auto* saved = end->get<schema::PtyMaster>();
        if (saved != nullptr && saved->packet_mode) ::ioctl(first_master.get(), TIOCPKT, &on);
        if (saved != nullptr && saved->locked) ::ioctl(first_master.get(), TIOCSPTLCK, &on);
        if (saved != nullptr) give_name(opening, *saved, first_master.get());
    }
    for (const Fd& end : exclusive)  // behind all that opens an end
        if (::ioctl(end.get(), TIOCEXCL) != 0) return fail_errno("a pseudo-terminal: TIOCEXCL");
    return {};
}

// Stands for a terminal that isn't there any more.
Result<> open_substitute(Opening& opening, const Object& object) {
    if (opening.stand_in(object)) return {};
    Fd null(::open("/dev/null", (object.flags & O_ACCMODE) | O_CLOEXEC));
    if (!null) return fail_errno("/dev/null");
    opening.note("{} is not here: /dev/null takes its place", object.path);
    return opening.keep(object, std::move(null));
}

Result<> open_outer(Opening& opening, const Object& object, bool main) {
    if (!main && object.outside) return open_substitute(opening, object);
    if (!main) {
        // Whoever has logged in there by now: a user gets no other user's terminal.
        const Access& access = opening.options.access;
        auto found = access.find(object, object.path);
        if (found && S_ISCHR(found->status.st_mode)) {
            auto other =
                access.open(object, object.path, *found, reopen_flags(object.flags) | O_NOCTTY | O_NONBLOCK);
            if (other && ::isatty(other->get())) {
                ::fcntl(other->get(), F_SETFL, object.flags & ~O_ASYNC);
                if (opening.others_terminals.empty())
                    opening.note(
                        "{} isn't the restart's own terminal: what was on it uses it as it is, and has no "
                        "controlling terminal (`cairn restart --part N` on a terminal of its own gives it "
                        "one)",
                        object.path);
                opening.others_terminals.insert(object.id);
                return opening.keep(object, std::move(*other));
            }
        }
        return open_substitute(opening, object);
    }
    if (opening.options.terminal < 0) return open_substitute(opening, object);
    Fd again(::open(fd_path(opening.options.terminal).c_str(),
                    reopen_flags(object.flags) | O_NOCTTY | O_NONBLOCK));
    // Of another user (su): the description that we have does as well.
    if (!again) return opening.keep_copy(object, opening.options.terminal);
    ::fcntl(again.get(), F_SETFL, object.flags & ~O_ASYNC);
    return opening.keep(object, std::move(again));
}

// All objects of one terminal.
Result<> open_terminal(Opening& opening, const Group& ends) {
    bool master = false, main = false;
    for (const Object* end : ends) {
        master = master || end->is<schema::PtyMaster>();
        main = main || state_of(*end).pair == opening.main_terminal;
    }
    if (master) return open_pair(opening, ends);
    for (const Object* end : ends) CHECK_OK(open_outer(opening, *end, main));
    return {};
}

}  // namespace

Result<> open_terminals(Opening& opening) {
    const auto id_of = [](const Object& object) {
        const auto* terminal = schema::terminal_in(object.what);
        return terminal == nullptr ? -1 : terminal->pair;
    };
    for (const auto& [id, ends] : groups(opening.objects, id_of)) CHECK_OK(open_terminal(opening, ends));
    return {};
}

// Once for all descriptions of a terminal.
Result<> set_up_outer_terminal(const Object& object, int fd, AfterForest& after) {
    const std::int64_t pair = state_of(object).pair;
    if (!after.options.terminal_modes || ::isatty(fd) == 0 || !after.terminals.insert(pair).second) return {};
    if (auto done = set_up_terminal(object, fd); !done) after.notes.push_back(done.error().what);
    return {};
}

Result<> ObjectSet::set_foreground(int terminal, KernelId group) {
    // A background process that does this gets SIGTTOU unless it blocks it.
    sigset_t out, before;
    ::sigemptyset(&out);
    ::sigaddset(&out, SIGTTOU);
    ::sigprocmask(SIG_BLOCK, &out, &before);
    const pid_t wanted = group.number();
    const int done = ::ioctl(terminal, TIOCSPGRP, &wanted);
    const int problem = errno;
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    errno = problem;
    if (done != 0) return fail_errno("foreground process group {} of the terminal", group);
    return {};
}

}  // namespace cairn::restart
