// epoll(7): made with the others, and filled in a process that has it, when its descriptors are in place.
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "resources/restore/other.h"

namespace cairn::restart {
namespace {

// EP_PRIVATE_BITS of fs/eventpoll.c: what is left of a oneshot registration that has reported.
constexpr std::uint32_t private_bits = EPOLLWAKEUP | EPOLLONESHOT | EPOLLET | EPOLLEXCLUSIVE;

bool is_spent(std::uint32_t events) {
    return (events & EPOLLONESHOT) != 0 && (events & ~private_bits) == 0;
}

// The number that a file is known by in the epoll may be closed in this process, or be something else's: it
// is the watched one's for the moment.
class Borrowed {
  public:
    Borrowed(int number, int from, int floor) : number_(number), before_(::fcntl(number, F_DUPFD, floor)) {
        good_ = ::dup2(from, number) == number;
    }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    ~Borrowed() {
        const int problem = errno;
        if (before_)
            ::dup2(before_.get(), number_);
        else
            ::close(number_);
        errno = problem;
    }
    [[nodiscard]] bool good() const { return good_; }

  private:
    int number_;
    Fd before_;
    bool good_ = false;
};

bool is_ready(int fd) {
    pollfd polled{fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    return ::poll(&polled, 1, 0) == 1;
}

void harvest(int epoll) {
    epoll_event events[16];
    while (::epoll_wait(epoll, events, std::size(events), 0) > 0) {
    }
}

// An empty pipe gets a byte for the moment: nobody runs who could see it.
void report_pipe(int epoll, int end) {
    const Fd write(::open(fd_path(end).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    const Fd read(::open(fd_path(end).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!write || !read || ::write(write.get(), "", 1) != 1) return;
    harvest(epoll);
    char byte;
    (void)!::read(read.get(), &byte, 1);
}

// A registration that reports nothing any more, not even errors, can't be asked for: epoll_ctl adds EPOLLERR
// and EPOLLHUP to whatever it is given. So it is made to report once more, to us. Where the file isn't ready
// for anything now those two are left: it may report one of them.
Result<> add_spent(int epoll, int number, int from, epoll_event event) {
    const std::uint32_t wanted = event.events;
    event.events |= EPOLLIN | EPOLLOUT | EPOLLRDHUP;
    if (::epoll_ctl(epoll, EPOLL_CTL_ADD, number, &event) != 0)
        return errno == EEXIST ? Result<>() : fail_errno("epoll: descriptor {} can't be watched", number);
    struct stat status {};
    if (is_ready(from)) {
        harvest(epoll);
    } else if (::fstat(from, &status) == 0 && S_ISFIFO(status.st_mode) &&
               (::fcntl(from, F_GETFL) & O_ACCMODE) == O_RDONLY) {
        report_pipe(epoll, from);
    } else {
        event.events = wanted;
        if (::epoll_ctl(epoll, EPOLL_CTL_MOD, number, &event) != 0)
            return fail_errno("epoll: descriptor {} can't be watched", number);
    }
    return {};
}

}  // namespace

Result<Fd> open_epoll(Opening&, const schema::Object&, const schema::Epoll&) {
    Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll) return fail_errno("epoll");
    return epoll;
}

Result<> watch(const schema::Epoll& saved, int epoll, int floor, const FindTarget& find) {
    // Those that have reported come first: what makes them report would make others as well.
    for (const bool spent : {true, false}) {
        for (const schema::EpollTarget& target : saved.targets) {
            epoll_event event{};
            event.events = target.events;
            event.data.u64 = target.data;
            if (is_spent(event.events) != spent) continue;
            const int from = find(target.object);
            const int number = target.fd.number();  // this process becomes the program
            if (from < 0) continue;
            const Borrowed borrowed(number, from, floor);
            if (!borrowed.good()) return fail_errno("epoll: descriptor {}", number);
            if (spent) {
                CHECK_OK(add_spent(epoll, number, from, event));
            } else if (::epoll_ctl(epoll, EPOLL_CTL_ADD, number, &event) != 0 && errno != EEXIST) {
                return fail_errno("epoll: descriptor {} can't be watched", number);
            }
        }
    }
    return {};
}

}  // namespace cairn::restart
