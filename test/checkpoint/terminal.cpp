// The terminal that the program was started from: mode, foreground group, what was typed ahead, /dev/tty.
// rain: soak
// narrow: none
// heirs: none
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>

#include <atomic>
#include <initializer_list>
#include <string>

#include "support.h"

namespace {
std::atomic<int> resized{0};
}

int main() {
    if (!isatty(0)) test::skip("no terminal");
    struct sigaction action {};
    // A restart tells it to draw again.
    action.sa_handler = test::is_watched() ? [](int) {} : [](int) { ++resized; };
    action.sa_flags = SA_RESTART;
    sigaction(SIGWINCH, &action, nullptr);
    termios mode{};
    CHECK(tcgetattr(0, &mode) == 0);
    mode.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
    mode.c_cc[VINTR] = 7;
    mode.c_cc[VMIN] = 0;
    CHECK(tcsetattr(0, TCSANOW, &mode) == 0);
    const int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
    CHECK(tty >= 0);
    // Told of what is typed by a signal, as emacs is.
    signal(SIGIO, SIG_IGN);
    CHECK(fcntl(tty, F_SETOWN, getpid()) == 0 && fcntl(tty, F_SETFL, O_RDWR | O_ASYNC) == 0);
    const int twin = dup(tty);
    // Of one open file description, in one process and in two.
    const auto shared = [](pid_t pid, int one, int other) {
        constexpr int kcmp_file = 0;  // KCMP_FILE
        return syscall(SYS_kcmp, getpid(), pid, kcmp_file, one, other) == 0;
    };
    const pid_t session = tcgetsid(0);
    CHECK(session == getsid(0));
    // A background group beside us in the foreground.
    const pid_t background = fork();
    if (background == 0) {
        setpgid(0, 0);
        for (;;) pause();
    }
    while (getpgid(background) != background) test::nap(1);
    CHECK(tcgetpgrp(0) == getpgrp());
    test::serve([&](bool last) {
        termios now{};
        CHECK(tcgetattr(0, &now) == 0 && tcgetattr(tty, &now) == 0);
        CHECK(now.c_lflag == mode.c_lflag && now.c_cc[VINTR] == 7 && now.c_cc[VMIN] == 0 &&
              now.c_iflag == mode.c_iflag);
        CHECK(isatty(0) && isatty(1) && isatty(2) && tcgetsid(0) == session && tcgetsid(tty) == session);
        CHECK(tcgetpgrp(0) == getpgrp() && tcgetpgrp(tty) == getpgrp());
        CHECK(fcntl(tty, F_GETFD) == FD_CLOEXEC);
        CHECK(fcntl(tty, F_GETOWN) == getpid() && (fcntl(tty, F_GETFL) & O_ASYNC) != 0);
        CHECK(shared(getpid(), tty, twin) && shared(background, tty, tty));
        const int again = open("/dev/tty", O_RDWR);
        CHECK(again >= 0 && tcgetsid(again) == session);
        close(again);
        // The foreground can be given away and taken back.
        signal(SIGTTOU, SIG_IGN);
        CHECK(tcsetpgrp(0, background) == 0 && tcgetpgrp(0) == background);
        CHECK(tcsetpgrp(0, getpgrp()) == 0 && tcgetpgrp(tty) == getpgrp());
        if (!last) return;
        CHECK(kill(background, SIGKILL) == 0 && waitpid(background, nullptr, 0) == background);
    });
}
