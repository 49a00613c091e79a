#include "resources/fanotify/restore_overflow.h"

#include <fcntl.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/fd.h"

namespace cairn::restart {
namespace {

// FIONREAD counts so much for each event, whatever else is told with it (fanotify_ioctl()).
constexpr int counted = FAN_EVENT_METADATA_LEN;
constexpr std::uint64_t opened_files = FAN_OPEN | FAN_EVENT_ON_CHILD;

// A folder of our own on a file system that can be marked, with a mark.
class Decoy {
  public:
    explicit Decoy(int fd) : fd_(fd) {
        const char* temporary = std::getenv("TMPDIR");
        for (const std::string place : {"/dev/shm", temporary == nullptr ? "/tmp" : temporary}) {
            std::string name = place + "/.cairn-events-XXXXXX";
            if (::mkdtemp(name.data()) == nullptr) continue;
            folder_.reset(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
            name_ = name;
            if (folder_ && ::fanotify_mark(fd_, FAN_MARK_ADD, opened_files, AT_FDCWD, name_.c_str()) == 0) {
                good_ = true;
                return;
            }
            ::rmdir(name_.c_str());
        }
    }
    Decoy(const Decoy&) = delete;
    Decoy& operator=(const Decoy&) = delete;
    ~Decoy() {
        if (!good_) return;
        ::fanotify_mark(fd_, FAN_MARK_REMOVE, opened_files, AT_FDCWD, name_.c_str());
        ::rmdir(name_.c_str());
    }
    [[nodiscard]] bool good() const { return good_; }

    // The kernel merges events of one file with each other, so it is another file each time.
    [[nodiscard]] bool make_event() const {
        const Fd file(::openat(folder_.get(), "event", O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        return file && ::unlinkat(folder_.get(), "event", 0) == 0;
    }

  private:
    int fd_;
    Fd folder_;
    std::string name_;
    bool good_ = false;
};

Result<int> waiting_in(int fd) {
    int bytes = 0;
    if (::ioctl(fd, FIONREAD, &bytes) != 0) return fail_errno("FIONREAD");
    return bytes / counted;
}

Result<int> fill_with_files(int fd) {
    const Decoy decoy(fd);
    if (!decoy.good()) return fail_errno("no folder of ours can be marked");
    constexpr int at_most = 1 << 24, looked_after = 1024;
    int waiting = -1;
    for (int events = 0; events < at_most; events += looked_after) {
        const int before = waiting;
        waiting = TRY(waiting_in(fd));
        if (waiting == before) break;
        for (int i = 0; i < looked_after; ++i)
            if (!decoy.make_event()) return fail_errno("a file in a folder of ours");
    }
    return waiting;
}

// What comes with an event: a descriptor of the file, one of the process (FAN_REPORT_PIDFD).
void close_all_of(const fanotify_event_metadata& event) {
    if (event.fd >= 0) ::close(event.fd);
    constexpr std::uint8_t info_pidfd = 4;  // FAN_EVENT_INFO_TYPE_PIDFD, linux/fanotify.h of 5.15
    struct Info {
        std::uint8_t type, pad;
        std::uint16_t length;
        std::int32_t pidfd;
    };
    const auto* bytes = reinterpret_cast<const char*>(&event);
    for (std::size_t at = event.metadata_len; at + sizeof(Info) <= event.event_len;) {
        const auto& info = *reinterpret_cast<const Info*>(bytes + at);
        if (info.type == info_pidfd && info.pidfd >= 0) ::close(info.pidfd);
        if (info.length == 0) break;
        at += info.length;
    }
}

}  // namespace

Result<> tell_of_lost_events_by_fanotify(int fd) {
    int left = TRY(fill_with_files(fd)) - 1;
    if (left <= 0) return fail("its queue can't be filled");
    alignas(fanotify_event_metadata) std::array<char, 64 * counted> events{};
    // Never room for one too many. An event may be longer than what is counted for it: of the last ones each
    // is read by itself.
    for (std::size_t room = counted; left > 0;) {
        const auto many = static_cast<std::size_t>(left) * counted;
        const auto size = std::min(std::max(many, room), events.size());
        const ssize_t got = ::read(fd, events.data(), size);
        if (got < 0 && errno == EINVAL && size < events.size()) {
            room = size + sizeof(std::uint32_t);  // in steps of which all lengths are
            continue;
        }
        if (got <= 0) return fail_errno("its queue can't be read");
        auto rest = static_cast<std::size_t>(got);
        const auto* event = reinterpret_cast<const fanotify_event_metadata*>(events.data());
        for (; FAN_EVENT_OK(event, rest); event = FAN_EVENT_NEXT(event, rest), --left) close_all_of(*event);
    }
    return {};
}

}  // namespace cairn::restart
