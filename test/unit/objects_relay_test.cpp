// The relay between a restored terminal and the user's.
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <thread>

#include "restart/terminal/relay.h"
#include "test/unit/objects_support.h"

namespace cairn::test {
namespace {

using restart::Relay;

// A terminal (outer_master is the person at it); a process that relays it to a `program` in a session of its
// own.
class ObjectsRelay : public ::testing::Test {
  protected:
    void start(const std::function<void()>& program) {
        int master = -1, slave = -1;
        winsize size{24, 80, 0, 0};
        ASSERT_EQ(::openpty(&master, &slave, nullptr, nullptr, &size), 0);
        person.reset(master);
        const Fd ours(slave);
        tool = ::fork();
        if (tool == 0) {
            ::alarm(200);
            ::setsid();
            person.reset();
            CHILD_CHECK(::ioctl(slave, TIOCSCTTY, 0) == 0);
            std::_Exit(relay(slave, program));
        }
    }

    static int relay(int terminal, const std::function<void()>& program) {
        auto relay = Relay::create(terminal, terminal, {}, {});
        CHILD_CHECK(relay);
        const pid_t child = ::fork();
        if (child == 0) {
            CHILD_CHECK(::setsid() > 0 && ::ioctl(relay->slave(), TIOCSCTTY, 0) == 0);
            for (int fd = 0; fd < 3; ++fd) ::dup2(relay->slave(), fd);
            ::close_range(3, ~0U, 0);
            program();
            std::_Exit(7);
        }
        relay->close_slave();
        const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
        const auto end = relay->run({pidfd.get(), [] { return Relay::Next::finish; }, {}, {}});
        CHILD_CHECK(end);
        int status = 0;
        ::waitpid(child, &status, 0);
        if (*end == Relay::End::hung_up) return WIFSIGNALED(status) ? 100 + WTERMSIG(status) : 99;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
    }

    // What appears on the screen, until it contains `text`.
    std::string screen_until(const std::string& text) {
        std::string screen;
        pollfd polled{person.get(), POLLIN, 0};
        while (screen.find(text) == std::string::npos && ::poll(&polled, 1, 60000) > 0) {
            char piece[512];
            const ssize_t got = ::read(person.get(), piece, sizeof piece);
            if (got <= 0) break;
            screen.append(piece, static_cast<std::size_t>(got));
        }
        return screen;
    }
    void type(const std::string& text) { ASSERT_GT(::write(person.get(), text.data(), text.size()), 0); }
    int exit_of_tool() {
        int status = 0;
        ::waitpid(tool, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }

    Fd person;
    pid_t tool = 0;
};

TEST_F(ObjectsRelay, CarriesBothWaysAndKeepsTheStatus) {
    start([] {
        char line[64] = {};
        ::dprintf(1, "ready\n");
        const ssize_t got = ::read(0, line, sizeof line);
        ::dprintf(1, "got %zd: %s", got, line);
    });
    screen_until("ready");
    type("hello\r");
    EXPECT_NE(screen_until("got 6: hello\r\n").find("got 6: hello\r\n"), std::string::npos);
    EXPECT_EQ(exit_of_tool(), 7);
}

TEST_F(ObjectsRelay, MuchOutputArrivesWhole) {
    start([] {
        for (int i = 0; i < 20000; ++i) ::dprintf(1, "%05d\n", i);
    });
    const std::string screen = screen_until("19999\r\n");
    EXPECT_EQ(screen.size(), 7U * 20000);
    EXPECT_EQ(exit_of_tool(), 7);
}

TEST_F(ObjectsRelay, ControlCAndSizeReachTheInside) {
    start([] {
        static volatile sig_atomic_t signalled = 0;
        ::signal(SIGWINCH, [](int) {
            signalled = signalled + 1;
            ::dprintf(1, "resized\n");
        });
        ::signal(SIGINT, [](int) {
            winsize size{};
            ::ioctl(0, TIOCGWINSZ, &size);
            ::dprintf(1, "interrupted %d %d\n", size.ws_row, signalled);
            std::_Exit(5);
        });
        ::dprintf(1, "ready\n");
        for (;;) ::pause();
    });
    screen_until("ready");
    winsize size{50, 132, 0, 0};
    ASSERT_EQ(::ioctl(person.get(), TIOCSWINSZ, &size), 0);
    screen_until("resized");
    type("\x03");
    EXPECT_NE(screen_until("interrupted 50 1").find("interrupted 50 1"), std::string::npos);
    EXPECT_EQ(exit_of_tool(), 5);
}

TEST_F(ObjectsRelay, HangUpReachesTheInside) {
    start([] {
        ::dprintf(1, "ready\n");
        for (;;) ::pause();
    });
    screen_until("ready");
    person.reset();
    EXPECT_EQ(exit_of_tool(), 100 + SIGHUP);
}

TEST_F(ObjectsRelay, SettingsOfTheTerminalComeBack) {
    start([] { ::dprintf(1, "ready\n"); });
    termios before{};
    ASSERT_EQ(::tcgetattr(person.get(), &before), 0);
    EXPECT_EQ(exit_of_tool(), 7);
    termios after{};
    // On a master tcgetattr shows what the slave has.
    ASSERT_EQ(::tcgetattr(person.get(), &after), 0);
    EXPECT_EQ(after.c_lflag & (ICANON | ECHO | ISIG), static_cast<tcflag_t>(ICANON | ECHO | ISIG));
    EXPECT_TRUE(after.c_oflag & OPOST);
}

TEST_F(ObjectsRelay, EndOfAPipeIsTypedAsEof) {
    int input[2], output[2];
    ASSERT_EQ(::pipe2(input, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(output, O_CLOEXEC), 0);
    ASSERT_EQ(::write(input[1], "a\nb\n", 4), 4);
    ::close(input[1]);
    tool = ::fork();
    if (tool == 0) {
        ::alarm(200);
        ::setsid();
        auto relay = Relay::create(input[0], output[1], {}, {});
        CHILD_CHECK(relay);
        const pid_t child = ::fork();
        if (child == 0) {
            for (int fd = 0; fd < 3; ++fd) ::dup2(relay->slave(), fd);
            ::execlp("wc", "wc", "-l", nullptr);
        }
        relay->close_slave();
        const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
        CHILD_CHECK(relay->run({pidfd.get(), [] { return Relay::Next::finish; }, {}, {}}));
        std::_Exit(0);
    }
    ::close(output[1]);
    person.reset(output[0]);
    EXPECT_NE(screen_until("2\r\n").find("2\r\n"), std::string::npos);
    EXPECT_EQ(exit_of_tool(), 0);
    ::close(input[0]);
}

}  // namespace
}  // namespace cairn::test
