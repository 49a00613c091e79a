#include "resources/socket/restore.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "common/raw.h"

namespace cairn::restart {

namespace {

void set_number(int fd, int level, int option, int value) {
    int now = 0;
    socklen_t length = sizeof now;
    if (::getsockopt(fd, level, option, &now, &length) == 0 && now == value) return;
    ::setsockopt(fd, level, option, &value, sizeof value);
}

// A text or a struct.
template <class Value>
void set_block(int fd, const schema::SocketOption& option, const Value& value) {
    char now[256] = {};
    socklen_t length = sizeof now;
    if (::getsockopt(fd, option.level, option.option, now, &length) == 0) {
        const std::size_t size = option.form == schema::OptionForm::text ? ::strnlen(now, length) : length;
        if (std::equal(value.begin(), value.end(), now, now + size)) return;
    }
    ::setsockopt(fd, option.level, option.option, value.data(), static_cast<socklen_t>(value.size()));
}

}  // namespace

void set_int(int fd, int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
}

void set_socket_options(int fd, const schema::SocketOptions& options, schema::OptionMoment moment) {
    schema::each_option(options,
                        [&]<class T>(const schema::SocketOption& option, const std::optional<T>& value) {
                            if (option.moment != moment || !value) return;
                            if constexpr (std::is_same_v<T, std::int32_t>)
                                set_number(fd, option.level, option.option, *value);
                            else
                                set_block(fd, option, *value);
                        });
    if (moment != schema::OptionMoment::last) return;
    if (options.peek_offset) set_number(fd, SOL_SOCKET, SO_PEEK_OFF, *options.peek_offset);
    if (options.reuse_address) set_number(fd, SOL_SOCKET, SO_REUSEADDR, *options.reuse_address);
    if (options.filter.empty()) return;
    std::vector<sock_filter> program(options.filter.size() / sizeof(sock_filter));
    std::memcpy(program.data(), options.filter.data(), program.size() * sizeof(sock_filter));
    const sock_fprog whole{static_cast<unsigned short>(program.size()), program.data()};
    ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &whole, sizeof whole);
    set_number(fd, SOL_SOCKET, SO_LOCK_FILTER, options.filter_locked ? 1 : 0);
}

// getsockopt tells twice of what setsockopt was given: socket(7).
void set_buffers(int fd, const schema::SocketOptions& options) {
    const auto set = [&](int option, int force, int value) {
        int now = 0;
        socklen_t length = sizeof now;
        if (value == 0 || (::getsockopt(fd, SOL_SOCKET, option, &now, &length) == 0 && now == value)) return;
        const int half = value / 2;
        if (::setsockopt(fd, SOL_SOCKET, force, &half, sizeof half) != 0)
            ::setsockopt(fd, SOL_SOCKET, option, &half, sizeof half);
    };
    set(SO_SNDBUF, SO_SNDBUFFORCE, options.send_buffer);
    set(SO_RCVBUF, SO_RCVBUFFORCE, options.receive_buffer);
    if (options.buffer_lock) set_number(fd, SOL_SOCKET, schema::so_buf_lock, *options.buffer_lock);
}

void make_room(int fd, std::size_t bytes) {
    // Small messages take up to a kilobyte each of what a buffer is said to hold.
    const int wanted = static_cast<int>(std::min<std::size_t>(4 * bytes + (4 << 20), 1 << 29));
    for (const auto& [force, option] : {std::pair{SO_SNDBUFFORCE, SO_SNDBUF}, {SO_RCVBUFFORCE, SO_RCVBUF}})
        if (::setsockopt(fd, SOL_SOCKET, force, &wanted, sizeof wanted) != 0)
            ::setsockopt(fd, SOL_SOCKET, option, &wanted, sizeof wanted);
}

Result<> set_flags(int fd, const schema::Object& object) {
    if (::fcntl(fd, F_SETFL, object.flags & ~O_ASYNC) != 0) return fail_errno("F_SETFL of a socket");
    return {};
}

void shut_down(int fd, int which) {
    if ((which & 3) != 0) ::shutdown(fd, which == 1 ? SHUT_RD : which == 2 ? SHUT_WR : SHUT_RDWR);
}

int call_as(const schema::Credentials& who, bool possible, const std::function<int()>& call) {
    if (possible && who.pid > ProgramId(1)) {
        clone_args arguments{};
        pid_t id = kernel_id_of_same_number(who.pid).number();
        // In this memory, while this thread waits: a copy of it would cost a millisecond for each of
        // thousands of sockets.
        arguments.flags = CLONE_FILES | CLONE_VM | CLONE_VFORK;
        arguments.exit_signal = SIGCHLD;
        arguments.set_tid = reinterpret_cast<std::uint64_t>(&id);
        arguments.set_tid_size = 1;
        // Raw calls, and inline: the child goes on on this very stack, where libc's syscall() would have left
        // the address that its parent returns to. And libc's would set the ids of threads that the child
        // hasn't got.
        const int dumpable = ::prctl(PR_GET_DUMPABLE);
        const long child = raw::call(SYS_clone3, &arguments, sizeof arguments);
        if (child == 0) {
            const bool became = raw::call(SYS_setresgid, who.gid, who.gid, who.gid) == 0 &&
                                raw::call(SYS_setresuid, who.uid, who.uid, who.uid) == 0;
            const int problem = became ? call() : EPERM;
            raw::call(SYS_exit, problem);
        }
        // A child that has become another user has taken this away from the memory that both have.
        if (dumpable == 1) ::prctl(PR_SET_DUMPABLE, 1);
        int status = 0;
        if (child > 0 && ::waitpid(static_cast<pid_t>(child), &status, 0) == child && WIFEXITED(status) &&
            WEXITSTATUS(status) == 0)
            return 0;
    }
    return call();
}

}  // namespace cairn::restart
