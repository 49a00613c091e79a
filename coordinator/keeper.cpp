#include "coordinator/keeper.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <chrono>
#include <cstring>

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto settling = 100ms;        // a folder that is being removed goes file by file
constexpr auto between_tries = 2000ms;  // where it can't be made again yet
constexpr auto between_touches = 6h;    // tmpreaper and tmpwatch go by the age only
constexpr std::uint32_t awaited = IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

}  // namespace

Keeper::Keeper(asio::io_context& io, const Session& session, Fd lock, Fd name, Actions actions)
    : session_(session),
      lock_(std::move(lock)),
      actions_(std::move(actions)),
      asked_(io, [this](const Fd&) { check(); }),
      name_(std::move(name)),
      events_(io),
      later_(io),
      touching_(io) {}

// A second name of the region beside the session's folder: where only the folder is removed, the file itself
// comes back. One that has no name any more can't get another (link(2) of an inode whose link count is 0 is
// ENOENT).
std::string Keeper::spare() const {
    return session_.directory.substr(0, session_.directory.rfind('/')) + "/." + session_.name + ".region";
}

Keeper::Identity Keeper::identity(const std::string& path, bool follow) {
    struct stat info {};
    if ((follow ? ::stat(path.c_str(), &info) : ::lstat(path.c_str(), &info)) != 0) return {};
    return {info.st_dev, info.st_ino};
}

Result<> Keeper::start() {
    region_.reset(::open(session_.region().c_str(), O_RDWR | O_CLOEXEC));
    if (!region_) return fail_errno("{}", session_.region());
    ::unlink(spare().c_str());
    [[maybe_unused]] const int linked = ::link(session_.region().c_str(), spare().c_str());
    remember();
    watch();
    if (name_) asked_.start(std::move(name_));
    touch();
    return {};
}

void Keeper::stop() {
    stopped_ = true;
    asked_.stop();
    later_.cancel();
    touching_.cancel();
    boost::system::error_code ignored;
    events_.close(ignored);
    // The region's own name stays, or goes, as the coordinator decides; this one is nobody else's business.
    if (identity(session_.region(), false) == region_file_) ::unlink(spare().c_str());
}

void Keeper::remember() {
    region_file_ = identity(session_.region(), true);
    socket_file_ = identity(session_.socket(), false);
    // systemd-tmpfiles leaves alone a folder that is locked (tmpfiles.d(5), "Age").
    const std::string place = session_.directory.substr(0, session_.directory.rfind('/'));
    place_.reset(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    folder_.reset(::open(session_.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (const Fd* each : {&place_, &folder_})
        if (*each) ::flock(each->get(), LOCK_SH | LOCK_NB);
}

void Keeper::watch() {
    boost::system::error_code ignored;
    events_.close(ignored);
    const int fd = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    // Where there are no more of them for this user, time is all there is to go by.
    if (fd < 0) return look_later(between_tries);
    watched_ = ::inotify_add_watch(fd, session_.directory.c_str(), awaited);
    events_.assign(fd, ignored);
    if (watched_ < 0) return look_later(between_tries);
    read_events();
}

void Keeper::read_events() {
    events_.async_wait(
        asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
            if (error || stopped_) return;
            alignas(inotify_event) std::array<char, 4096> buffer{};
            bool ours = false;
            for (ssize_t size = 0;
                 (size = ::read(events_.native_handle(), buffer.data(), buffer.size())) > 0;) {
                for (ssize_t at = 0; at < size;) {
                    inotify_event event{};
                    std::memcpy(&event, &buffer[static_cast<std::size_t>(at)], sizeof event);
                    const std::string_view name =
                        event.len == 0 ? "" : &buffer[static_cast<std::size_t>(at) + sizeof event];
                    // state.json is renamed into its place at every change.
                    ours |= name.empty() || name == "region" || name == "socket" || name == "lock";
                    at += static_cast<ssize_t>(sizeof event + event.len);
                }
            }
            if (ours) look_later(settling);
            read_events();
        });
}

void Keeper::look_later(std::chrono::milliseconds after) {
    later_.expires_after(after);
    later_.async_wait([this](const boost::system::error_code& error) {
        if (error || stopped_) return;
        check();
        if (watched_ < 0) look_later(between_tries);
    });
}

void Keeper::touch() {
    for (const std::string& path :
         {session_.directory.substr(0, session_.directory.rfind('/')), session_.directory, session_.region(),
          session_.socket(), session_.lock(), session_.pid_file(), session_.log(), spare()})
        ::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
    touching_.expires_after(between_touches);
    touching_.async_wait([this](const boost::system::error_code& error) {
        if (!error && !stopped_) touch();
    });
}

bool Keeper::all_there() const {
    struct stat held {};
    const Identity lock = identity(session_.lock(), false);
    return identity(session_.region(), true) == region_file_ &&
           identity(session_.socket(), false) == socket_file_ &&
           (!lock_ || (::fstat(lock_.get(), &held) == 0 && lock == Identity{held.st_dev, held.st_ino}));
}

void Keeper::check() {
    if (stopped_ || !region_ || all_there()) return;
    if (Result<> made = make_again(); !made) {
        if (trouble_ != made.error().what)
            actions_.note(
                "what was in the session's folder was removed and can't be made again, programs go on but "
                "can't be reached: " +
                made.error().what);
        trouble_ = made.error().what;
        return look_later(between_tries);
    }
    trouble_.clear();
    remember();
    watch();
    actions_.write();
    actions_.note(
        "the session's folder " + session_.directory +
        ", or files in it, had been removed (at a logout? by a cleaner of /tmp?); it is made again, and the "
        "session goes on");
}

Result<> Keeper::make_again() {
    auto made = make_session(session_.name);
    if (!made) return fail("{}", made.error());
    if (made->directory != session_.directory)
        return fail("{} is gone, and sessions live in {} now", session_.directory, run_directory());
    if (Result<> locked = lock_again(); !locked) return locked;
    if (Result<> linked = region_again(); !linked) return linked;
    return actions_.listen();
}

Result<> Keeper::lock_again() {
    struct stat held {};
    if (!lock_) return {};
    if (::fstat(lock_.get(), &held) == 0 &&
        identity(session_.lock(), false) == Identity{held.st_dev, held.st_ino})
        return {};
    Fd fresh(::open(session_.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fresh) return fail_errno("{}", session_.lock());
    // One that is being started holds it until it has seen that we hold the name.
    if (::flock(fresh.get(), LOCK_EX | LOCK_NB) != 0) return fail_errno("{}: flock", session_.lock());
    lock_ = std::move(fresh);
    return {};
}

Result<> Keeper::region_again() {
    if (identity(session_.region(), true) == region_file_) return {};
    const std::string path = session_.region();
    ::unlink(path.c_str());
    if (identity(spare(), false) == region_file_ && ::link(spare().c_str(), path.c_str()) == 0) return {};
    // Its last name is gone. As long as we live it can be opened by way of our descriptor.
    const std::string way = fmt::format("/proc/{}/fd/{}", ::getpid(), region_.get());
    if (::symlink(way.c_str(), path.c_str()) != 0) return fail_errno("{}: symlink to {}", path, way);
    return {};
}

}  // namespace cairn::coordinator
