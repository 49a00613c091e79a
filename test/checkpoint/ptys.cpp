// A pseudo-terminal with both ends inside: termios, size, packet mode, what was typed and not yet read, what
// was printed and not yet read, a session on it with its foreground group.
// serial: its terminals' numbers must be free when it comes back
// rain: soak
// narrow: none
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>

#include <initializer_list>
#include <string>

#include "support.h"

namespace {
std::string everything(int fd) {
    std::string text;
    char part[256];
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    for (ssize_t got; (got = read(fd, part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(got));
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return text;
}
std::string until(int fd, const char* end) {
    std::string text;
    for (int i = 0; i < 2000 && text.find(end) == std::string::npos; ++i) {
        text += everything(fd);
        test::nap(5);
    }
    CHECK(text.find(end) != std::string::npos);
    return text;
}
}  // namespace

int main() {
    signal(SIGHUP, SIG_IGN);
    // A raw pair: bytes lie in it in both directions.
    int master = -1, slave = -1;
    char name[64];
    termios mode{};
    winsize size{33, 77, 5, 6};
    CHECK(openpty(&master, &slave, name, nullptr, &size) == 0);
    CHECK(tcgetattr(slave, &mode) == 0);
    cfmakeraw(&mode);
    mode.c_cc[VMIN] = 3;
    mode.c_cc[VTIME] = 9;
    mode.c_cc[VINTR] = 'q';
    CHECK(cfsetspeed(&mode, B19200) == 0 && tcsetattr(slave, TCSANOW, &mode) == 0);
    // As screen(1) and mesg(1) do it; a group that isn't his only root can give.
    const gid_t group = fchown(slave, static_cast<uid_t>(-1), 5) == 0 ? 5 : getegid();
    CHECK(fchmod(slave, 0622) == 0);
    CHECK(ioctl(slave, TIOCEXCL) == 0);
    CHECK(write(master, "typed ahead", 11) == 11);
    CHECK(write(slave, "printed\nbefore", 14) == 14);
    // A line-wise pair with a shell's session on it, in the middle of a line.
    int shell_master = -1;
    const pid_t shell = forkpty(&shell_master, nullptr, nullptr, &size);
    CHECK(shell >= 0);
    if (shell == 0) {
        close(master);
        close(slave);
        setenv("PS1", "$ ", 1);
        execl("/bin/sh", "sh", "-i", static_cast<char*>(nullptr));
        _exit(127);
    }
    until(shell_master, "$ ");
    CHECK(write(shell_master, "cat\n", 4) == 4);
    until(shell_master, "cat");
    test::nap(100);
    CHECK(write(shell_master, "one line\nhalf", 13) == 13);
    until(shell_master, "half");
    const pid_t foreground = tcgetpgrp(shell_master);
    CHECK(foreground > 0 && foreground != shell);

    test::serve([&](bool last) {
        termios now{};
        CHECK(tcgetattr(slave, &now) == 0);
        CHECK(now.c_iflag == mode.c_iflag && now.c_oflag == mode.c_oflag && now.c_cflag == mode.c_cflag);
        CHECK(now.c_lflag == mode.c_lflag && std::memcmp(now.c_cc, mode.c_cc, NCCS) == 0);
        CHECK(cfgetospeed(&now) == B19200);
        winsize is{};
        CHECK(ioctl(master, TIOCGWINSZ, &is) == 0 && is.ws_row == 33 && is.ws_col == 77 && is.ws_xpixel == 5);
        CHECK(std::string(ptsname(master)) == name && std::string(ttyname(slave)) == name);
        struct stat owned {};
        CHECK(fstat(slave, &owned) == 0 && owned.st_gid == group && (owned.st_mode & 07777) == 0622);
        int exclusive = 0, waiting = 0;
        CHECK(ioctl(slave, TIOCGEXCL, &exclusive) == 0 && exclusive == 1);
        CHECK(ioctl(slave, FIONREAD, &waiting) == 0 && waiting == 11);
        CHECK(ioctl(shell_master, TIOCGWINSZ, &is) == 0 && is.ws_row == 33);
        CHECK(tcgetpgrp(shell_master) == foreground && tcgetsid(shell_master) == shell);
        // The session's job control works: what is typed reaches cat, and so does the half line of before.
        CHECK(write(shell_master, " more\n", 6) == 6);
        until(shell_master, "\nhalf more\r\n");
        CHECK(write(shell_master, "half", 4) == 4);
        until(shell_master, "half");
        if (!last) return;
        CHECK(everything(slave) == "typed ahead");
        CHECK(everything(master) == "printed\nbefore");
        CHECK(write(shell_master, "\n\x04", 2) == 2);
        until(shell_master, "$ ");
        CHECK(tcgetpgrp(shell_master) == shell);
        CHECK(write(shell_master, "sleep 100\n", 10) == 10);
        for (int tries = 0; tries < 2000 && tcgetpgrp(shell_master) == shell; ++tries) test::nap(5);
        test::nap(100);  // it is still the shell's code that runs in it
        CHECK(tcgetpgrp(shell_master) != shell);
        CHECK(write(shell_master, "\x03", 1) == 1);
        until(shell_master, "$ ");
        CHECK(write(shell_master, "exit 9\n", 7) == 7);
        int status = 0;
        until(shell_master, "exit 9");
        CHECK(waitpid(shell, &status, 0) == shell && WEXITSTATUS(status) == 9);
    });
}
