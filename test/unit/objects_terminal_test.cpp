// Terminals captured and restored without a checkpoint.
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <termios.h>

#include "test/unit/objects_support.h"

namespace cairn::test {
namespace {

std::string read_now(int fd) {
    char text[256] = {};
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    const ssize_t got = ::read(fd, text, sizeof text);
    return got > 0 ? std::string(text, static_cast<std::size_t>(got)) : "";
}

// A pair at 120 (master) and 121 (slave), 80x33, without echo, ^D as the interrupt character.
void set_up_pair(tcflag_t canonical) {
    int master = -1, slave = -1;
    termios settings{};
    winsize size{33, 80, 0, 0};
    CHILD_CHECK(::openpty(&master, &slave, nullptr, nullptr, &size) == 0);
    CHILD_CHECK(::tcgetattr(slave, &settings) == 0);
    settings.c_lflag = (settings.c_lflag & ~static_cast<tcflag_t>(ECHO | ICANON)) | canonical;
    settings.c_cc[VINTR] = 4;
    CHILD_CHECK(::tcsetattr(slave, TCSANOW, &settings) == 0);
    CHILD_CHECK(::dup2(master, 120) == 120 && ::dup2(slave, 121) == 121);
}

void check_pair(tcflag_t canonical) {
    int index = -1;
    struct stat status {};
    CHILD_CHECK(::ioctl(120, TIOCGPTN, &index) == 0 && ::fstat(121, &status) == 0);
    CHILD_CHECK(static_cast<int>(minor(status.st_rdev)) == index);
    termios settings{};
    winsize size{};
    CHILD_CHECK(::tcgetattr(121, &settings) == 0 && ::ioctl(121, TIOCGWINSZ, &size) == 0);
    CHILD_CHECK((settings.c_lflag & static_cast<tcflag_t>(ECHO | ICANON)) == canonical &&
                settings.c_cc[VINTR] == 4);
    CHILD_CHECK((settings.c_oflag & OPOST) != 0 && size.ws_row == 33 && size.ws_col == 80);
}

// `before` writes; `after` reads, once in the process that was captured and once in the restored one.
void survives(const std::function<void()>& before, const std::function<void()>& after) {
    Stopped process([&] {
        before();
        ::usleep(20000);  // the kernel hands bytes over in a work queue
    });
    Checkpoint checkpoint;
    capture::ObjectTable table;
    checkpoint.add(table, process);
    checkpoint.finish(table);
    // The stopped process must find its queues as they were: looked at through descriptors of its own.
    const pid_t looker = ::fork();
    if (looker == 0) {
        const Fd master(static_cast<int>(::syscall(SYS_pidfd_getfd, process.holder().pidfd, 120, 0U)));
        const Fd slave(static_cast<int>(::syscall(SYS_pidfd_getfd, process.holder().pidfd, 121, 0U)));
        ::dup2(master.get(), 120);
        ::dup2(slave.get(), 121);
        after();
        std::_Exit(0);
    }
    int status = 0;
    ::waitpid(looker, &status, 0);
    EXPECT_EQ(status, 0) << "the captured process was disturbed";
    process.end();
    checkpoint.restore([&](std::size_t) { after(); });
}

TEST(ObjectsTerminal, PairWithLinesTypedAndPrinted) {
    survives(
        [] {
            set_up_pair(ICANON);
            CHILD_CHECK(::write(120, "one\ntwo\nthr", 11) == 11);
            CHILD_CHECK(::write(121, "printed\n", 8) == 8);
        },
        [] {
            check_pair(ICANON);
            CHILD_CHECK(read_now(120) == "printed\r\n");
            CHILD_CHECK(read_now(121) == "one\n");
            CHILD_CHECK(read_now(121) == "two\n");
            CHILD_CHECK(read_now(121).empty());
            CHILD_CHECK(::write(120, "ee\n", 3) == 3);
            ::usleep(20000);
            CHILD_CHECK(read_now(121) == "three\n");
        });
}

TEST(ObjectsTerminal, PairInRawMode) {
    survives(
        [] {
            set_up_pair(0);
            CHILD_CHECK(::write(120, "\x1b[A\x7f\r", 5) == 5);
        },
        [] {
            check_pair(0);
            CHILD_CHECK(read_now(121) == "\x1b[A\x7f\n");
            CHILD_CHECK(read_now(120).empty());
        });
}

TEST(ObjectsTerminal, PacketModeAndLock) {
    Stopped process([&] {
        set_up_pair(ICANON);
        int on = 1;
        CHILD_CHECK(::ioctl(120, TIOCPKT, &on) == 0 && ::ioctl(120, TIOCSPTLCK, &on) == 0);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    checkpoint.restore([](std::size_t) {
        check_pair(ICANON);
        int packet = 0, locked = 0;
        CHILD_CHECK(::ioctl(120, TIOCGPKT, &packet) == 0 && ::ioctl(120, TIOCGPTLCK, &locked) == 0);
        CHILD_CHECK(packet == 1 && locked == 1);
    });
}

// The programs' terminal, with its master outside, and another one to restart on.
TEST(ObjectsTerminal, OuterTerminalIsReplaced) {
    int master = -1, slave = -1, new_master = -1, new_slave = -1;
    ASSERT_EQ(::openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
    winsize size{50, 132, 0, 0};
    ASSERT_EQ(::openpty(&new_master, &new_slave, nullptr, nullptr, &size), 0);
    const Fd closers[] = {Fd(master), Fd(slave), Fd(new_master), Fd(new_slave)};
    Stopped process([&] {
        CHILD_CHECK(::setsid() > 0 && ::ioctl(slave, TIOCSCTTY, 0) == 0);
        for (int fd = 0; fd < 2; ++fd) CHILD_CHECK(::dup2(slave, fd) == fd);
        CHILD_CHECK(::dup2(::open("/dev/tty", O_RDWR), 120) == 120);
        termios settings{};
        CHILD_CHECK(::tcgetattr(0, &settings) == 0);
        settings.c_cc[VERASE] = 'e';
        CHILD_CHECK(::tcsetattr(0, TCSANOW, &settings) == 0);
    });
    Checkpoint checkpoint;
    capture::ObjectTable table;
    checkpoint.add(table, process);
    auto stat = proc::stat(process.pid());
    ASSERT_TRUE(stat);
    auto terminal =
        table.terminal_of(process.holder(), stat->tty_nr, KernelId(stat->session), KernelId(stat->tpgid));
    ASSERT_TRUE(terminal) << terminal.error().what;
    EXPECT_EQ(table.object(*terminal).get<schema::Terminal>()->terminal.foreground, ProgramId(process.pid()));
    checkpoint.processes[0].terminal = *terminal;
    checkpoint.finish(table);
    process.end();
    restart::ObjectSetOptions options;
    options.terminal = new_slave;
    auto set = checkpoint.open(options);
    ASSERT_TRUE(set) << set.error().what;
    const auto held = set->controlling_terminal(checkpoint.processes[0]);
    const int controlling = held.get();
    const pid_t child = ::fork();
    if (child == 0) {
        CHILD_CHECK(::setsid() > 0 && ::ioctl(controlling, TIOCSCTTY, 0) == 0);
        CHILD_CHECK(restart::ObjectSet::set_foreground(controlling, KernelId(::getpid())));
        CHILD_CHECK(set->after_forest({}, {}, checkpoint.notes));
        CHILD_CHECK(set->install(checkpoint.processes[0], {}, {}));
        termios settings{};
        winsize now{};
        struct stat here {
        }, there{};
        CHILD_CHECK(::tcgetattr(0, &settings) == 0 && settings.c_cc[VERASE] == 'e');
        CHILD_CHECK(::ioctl(1, TIOCGWINSZ, &now) == 0 && now.ws_row == 50);
        CHILD_CHECK(same_description(0, 1) && ::tcgetpgrp(120) == ::getpid());
        CHILD_CHECK(::fstat(0, &here) == 0 && ::fstat(120, &there) == 0 && minor(there.st_rdev) == 0);
        std::_Exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace cairn::test
