// Pseudo-terminals whose both ends are inside, and the terminal that the program was started from.
#include <asm/termbits.h>  // struct termios2: <termios.h> has only what POSIX knows, without the exact speeds
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstring>

#include "common/terminal_queue.h"
#include "resources/capture/table.h"
#include "resources/file/schema_identity.h"

namespace cairn::capture {
namespace {

struct TerminalsFound {
    std::map<dev_t, std::int64_t> all;    // device -> its object
    std::map<dev_t, std::int64_t> pairs;  // device of the slave -> TerminalState::pair
};

constexpr unsigned pts_major = 136, pts_majors = 8;  // UNIX98_PTY_SLAVE_MAJOR of the kernel's major.h

bool is_pts(dev_t device) {
    return major(device) >= pts_major && major(device) < pts_major + pts_majors;
}

template <class T>
schema::Bytes ask(int fd, unsigned long what) {
    T value{};
    if (::ioctl(fd, what, &value) != 0) return {};
    schema::Bytes bytes(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

void read_settings(schema::TerminalState& state, int fd) {
    state.termios = ask<termios2>(fd, TCGETS2);
    state.winsize = ask<winsize>(fd, TIOCGWINSZ);
    int on = 0;
    state.exclusive = ::ioctl(fd, TIOCGEXCL, &on) == 0 && on != 0;
}

// Pairs have ids of their own; the device number of the slave tells them apart.
std::int64_t pair_of(Table& table, dev_t slave) {
    auto& pairs = table.of<TerminalsFound>().pairs;
    return pairs.try_emplace(slave, static_cast<std::int64_t>(pairs.size())).first->second;
}

// That its master is inside is known only when all descriptors are.
schema::TerminalState& name_terminal(Table& table, schema::Object& object, dev_t device) {
    auto& state = object.what.emplace<schema::Terminal>().terminal;
    state.pair = pair_of(table, device);
    if (is_pts(device)) state.index = static_cast<std::int32_t>(minor(device));
    table.of<TerminalsFound>().all.try_emplace(device, object.id);
    return state;
}

}  // namespace

bool is_pty_master(const Looked& it) {
    return it.opened(S_IFCHR) && it.is_device(5, 2);
}

Result<> describe_pty_master(Table& table, const Description& found, schema::Object& object) {
    auto& saved = object.what.emplace<schema::PtyMaster>();
    object.path = found.link;
    object.identity = identity_of(found.status);
    unsigned index = 0;
    if (::ioctl(found.fd(), TIOCGPTN, &index) != 0)
        return fail_errno("is a pseudo-terminal without a number");
    saved.terminal.index = static_cast<std::int32_t>(index);
    saved.terminal.pair = pair_of(table, makedev(pts_major, index));
    int on = 0;
    saved.packet_mode = ::ioctl(found.fd(), TIOCGPKT, &on) == 0 && on;
    saved.locked = ::ioctl(found.fd(), TIOCGPTLCK, &on) == 0 && on;
    read_settings(saved.terminal, found.fd());
    // Only named, not opened (O_PATH): a slave that is closed again hangs up its master.
    const Fd slave(::ioctl(found.fd(), TIOCGPTPEER, O_PATH | O_CLOEXEC));
    struct stat name {};
    if (slave && ::fstat(slave.get(), &name) == 0) {
        saved.owner = name.st_uid;
        saved.group = name.st_gid;
        saved.mode = name.st_mode & 07777U;
    }
    return {};
}

bool is_terminal(const Looked& it) {
    // /dev/tty (5:0) is no terminal of its own: it is opened again by its path, in the process.
    return it.opened(S_IFCHR) && !it.is_device(5, 0) && ::isatty(it.found.fd()) == 1;
}

Result<> describe_terminal(Table& table, const Description& found, schema::Object& object) {
    object.path = found.link;
    object.identity = identity_of(found.status);
    read_settings(name_terminal(table, object, found.status.st_rdev), found.fd());
    return {};
}

Result<std::int64_t> ObjectTable::terminal_of(const Holder& holder, int tty_nr, KernelId session,
                                              KernelId tpgid) {
    if (tty_nr == 0) return -1;
    Table& table = *table_;
    // new_encode_dev() of the kernel: proc(5), tty_nr.
    const auto bits = static_cast<unsigned>(tty_nr);
    const dev_t device = makedev((bits >> 8) & 0xfff, (bits & 0xff) | ((bits >> 12) & 0xfff00));
    const auto& terminals = table.of<TerminalsFound>().all;
    auto known = terminals.find(device);
    if (known == terminals.end()) {
        schema::Object& object = table.add(schema::Terminal{});
        auto& state = name_terminal(table, object, device);
        if (is_pts(device)) {
            object.path = fmt::format("/dev/pts/{}", minor(device));
        } else {
            auto link = read_link(fmt::format("/sys/dev/char/{}:{}", major(device), minor(device)));
            object.path = link ? "/dev/" + link->substr(link->rfind('/') + 1) : "/dev/console";
        }
        object.flags = O_RDWR;
        const Fd terminal(::open(object.path.c_str(), O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
        struct stat status {};
        if (terminal && ::fstat(terminal.get(), &status) == 0 && status.st_rdev == device) {
            object.identity = identity_of(status);
            read_settings(state, terminal.get());
        } else {
            table.note("{}: its controlling terminal {} can't be opened: its settings are not saved",
                       name_of(holder), object.path);
        }
        known = terminals.find(device);
    }
    schema::Object& object = table.objects[static_cast<std::size_t>(known->second)];
    auto& state = object.get<schema::Terminal>()->terminal;
    state.session = table.to_program(session);
    state.foreground = tpgid.known() ? table.to_program(tpgid) : ProgramId();
    return object.id;
}

namespace {

// A description of our own, which doesn't block. A terminal that is exclusive (TIOCEXCL) is opened by nobody
// but root: for the moment of the opening it isn't.
Fd open_again(int slave) {
    Fd own = reopen(slave, O_RDWR | O_NONBLOCK);
    if (own || errno != EBUSY || ::ioctl(slave, TIOCNXCL) != 0) return own;
    own = reopen(slave, O_RDWR | O_NONBLOCK);
    ::ioctl(slave, TIOCEXCL);
    return own;
}

// Both ends are inside and everybody stands still: what is in the queues can be taken out and put back.
Result<> capture_queues(Table& table, schema::Object& master, schema::Object& slave) {
    const Description& found = table.descriptions.at(master.id);
    int waiting = 0;
    auto& saved = *master.get<schema::PtyMaster>();
    if (saved.packet_mode) {
        if (::ioctl(table.descriptions.at(slave.id).fd(), FIONREAD, &waiting) == 0 && waiting > 0)
            table.note(
                "{} is a pseudo-terminal in packet mode: {} bytes typed into it and not read yet are not "
                "saved",
                found.who(), waiting);
        return {};
    }
    const Fd own = open_again(table.descriptions.at(slave.id).fd());
    if (!own) {
        table.note("{}: {} can't be opened: what is in its queues is not saved", found.who(), slave.path);
        return {};
    }
    auto printed = take_printed(found.fd());
    if (!printed) return std::unexpected(std::move(printed.error()).in(found.who()));
    auto typed = take_typed(own.get());
    const auto back = typed ? put_typed(found.fd(), own.get(), *typed) : Result<>();
    // Whatever went wrong with the one, the other is put back.
    if (auto done = put_printed(found.fd(), own.get(), *printed); !done)
        return std::unexpected(std::move(done.error()).in(found.who()));
    if (!typed) return std::unexpected(std::move(typed.error()).in(found.who()));
    if (!back) return std::unexpected(Error(back.error()).in(found.who()));
    saved.terminal.input = std::move(*printed);
    slave.get<schema::PtySlave>()->terminal.input = std::move(*typed);
    return {};
}

}  // namespace

Result<> capture_terminals(Table& table) {
    std::map<std::int64_t, schema::Object*> masters;
    for (schema::Object& object : table.objects)
        if (const auto* saved = object.get<schema::PtyMaster>()) masters[saved->terminal.pair] = &object;
    std::set<std::int64_t> done_with;
    for (schema::Object& object : table.objects) {
        if (!object.is<schema::Terminal>()) continue;
        const schema::TerminalState state = object.get<schema::Terminal>()->terminal;
        const auto master = masters.find(state.pair);
        if (master != masters.end()) object.what = schema::PtySlave{state};
        // mpirun makes one for the standard output of each rank. It goes with mpirun, and its number may be
        // another terminal's when the programs come back.
        const bool standard_only = object.standard.known() && !state.session.known() && state.index >= 0;
        if (master == masters.end() && standard_only && held_above(table).terminals.contains(state.index)) {
            object.outside = true;
            table.note("{} is a terminal of a launcher outside the group",
                       table.descriptions.at(object.id).who());
        }
        const auto found = table.descriptions.find(object.id);
        // A controlling terminal that nobody has open; or another description of the same slave was first.
        if (found == table.descriptions.end() || !done_with.insert(state.pair).second) continue;
        int waiting = 0;
        if (master != masters.end()) {
            CHECK_OK(capture_queues(table, *master->second, object));
        } else if (::ioctl(found->second.fd(), FIONREAD, &waiting) == 0 && waiting > 0) {
            table.note("{} bytes typed into {} and not read yet stay with that terminal", waiting,
                       object.path);
        }
    }
    return {};
}

}  // namespace cairn::capture
