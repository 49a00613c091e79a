// What an image says of pseudo-terminals and of the terminal that the programs were started from.
#pragma once

#include <optional>
#include <variant>

#include "common/ids.h"
#include "common/schema/field.h"

namespace cairn::schema {

// What all of them have.
struct TerminalState {
    std::int64_t pair = -1;   // id of the pair: the same for both ends of a pseudo-terminal
    std::int32_t index = -1;  // N of /dev/pts/N
    Bytes termios;            // struct termios2
    Bytes winsize;            // struct winsize
    Bytes input;              // read by nobody yet (slave: typed; master: printed)
    ProgramId session, foreground;
    std::optional<bool> exclusive;  // TIOCEXCL
};

struct PtyMaster {
    static constexpr std::string_view kind = "pty_master";
    TerminalState terminal;
    bool packet_mode = false, locked = false;  // TIOCPKT, TIOCSPTLCK
    // Of the slave's name, /dev/pts/N: chown(2) and chmod(2) are for screen, sshd, mesg and others to say who
    // may write to it. Nothing if it couldn't be asked.
    std::optional<std::uint32_t> owner, group, mode;
};

struct PtySlave {  // both ends inside
    static constexpr std::string_view kind = "pty_slave";
    TerminalState terminal;
};

struct Terminal {  // the slave of a terminal whose master is outside: what the program was started from
    static constexpr std::string_view kind = "terminal";
    TerminalState terminal;
};

// Of an Object::what: null if it is no terminal.
template <class... Each>
[[nodiscard]] const TerminalState* terminal_in(const std::variant<Each...>& what) {
    return std::visit(
        [](const auto& one) -> const TerminalState* {
            if constexpr (requires { one.terminal; })
                return &one.terminal;
            else
                return nullptr;
        },
        what);
}

template <Struct<TerminalState> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(pair);
    CAIRN_FIELD(index);
    CAIRN_FIELD(termios);
    CAIRN_FIELD(winsize);
    CAIRN_FIELD(input);
    CAIRN_FIELD(session);
    CAIRN_FIELD(foreground);
    CAIRN_FIELD(exclusive);
}

template <Struct<PtyMaster> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(terminal);
    CAIRN_FIELD(packet_mode);
    CAIRN_FIELD(locked);
    CAIRN_FIELD(owner);
    CAIRN_FIELD(group);
    CAIRN_FIELD(mode);
}

template <Struct<PtySlave> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(terminal);
}

template <Struct<Terminal> S, class F>
void fields(S& s, F&& f) {
    CAIRN_FIELD(terminal);
}

}  // namespace cairn::schema
