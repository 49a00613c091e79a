// A process with descriptors is stopped and captured; what was captured is opened again in another process.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "common/image/reader.h"
#include "common/image/writer.h"
#include "common/proc.h"
#include "common/schema/json.h"
#include "resources/capture/objects.h"
#include "resources/restore/objects.h"
#include "resources/schema/descriptor_room.h"
#include "resources/schema/image.h"
#include "resources/schema/json.h"
#include "test/unit/folder.h"

namespace cairn::test {

inline void put_file(const std::string& path, const std::string& text) {
    const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    ASSERT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}
inline std::string get_file(const std::string& path) {
    auto text = proc::read_file(path);
    return text ? *text : "?";
}

// Reports and ends the child: an assertion of gtest would end in the parent's copy of the test.
#define CHILD_CHECK(condition)                                                                           \
    do {                                                                                                 \
        if (!(condition)) {                                                                              \
            std::fprintf(stderr, "%s:%d: in the child: %s (errno %d)\n", __FILE__, __LINE__, #condition, \
                         errno);                                                                         \
            std::_Exit(1);                                                                               \
        }                                                                                                \
    } while (false)

// The numbers that tests use for what they capture.
inline constexpr unsigned first_fd = 100, last_fd = 199;

// In the child: the descriptor gets one of these numbers.
inline void at(int number, int fd) {
    CHILD_CHECK(fd >= 0 && ::dup2(fd, number) == number);
    ::close(fd);
}

// A child that has run `set_up` and then stopped itself.
class Stopped {
  public:
    explicit Stopped(const std::function<void()>& set_up) {
        pid_ = ::fork();
        if (pid_ == 0) {
            set_up();
            // What the test's own process has open is none of it.
            ::close_range(3, first_fd - 1, 0);
            ::close_range(last_fd + 1, ~0U, 0);
            ::raise(SIGSTOP);
            std::_Exit(0);
        }
        int status = 0;
        ::waitpid(pid_, &status, WUNTRACED);
        EXPECT_TRUE(WIFSTOPPED(status)) << "the child failed to set itself up";
        pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    }
    Stopped(const Stopped&) = delete;
    Stopped& operator=(const Stopped&) = delete;
    ~Stopped() { end(); }
    void end() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }
    [[nodiscard]] capture::Holder holder() const { return {pid_, pidfd_.get(), 0}; }
    [[nodiscard]] pid_t pid() const { return pid_; }

  private:
    pid_t pid_ = 0;
    Fd pidfd_;
};

// A checkpoint's objects image, and the descriptors of the processes that it is of.
struct Checkpoint {
    Folder folder;
    std::vector<schema::Process> processes;
    std::vector<std::string> notes;

    void finish(capture::ObjectTable& table) {
        auto writer = ImageWriter::create(AT_FDCWD, folder / "objects", ImageKind::objects);
        ASSERT_TRUE(writer) << writer.error().what;
        auto done = table.capture_contents(*writer);
        ASSERT_TRUE(done) << done.error().what;
        auto finished = table.finish();
        ASSERT_TRUE(finished) << finished.error().what;
        notes = table.notes();
        writer->add_section(SectionType::objects, schema::encode(table.take()));
        auto size = writer->finish(Durable::no);
        ASSERT_TRUE(size) << size.error().what;
    }
    void add(capture::ObjectTable& table, const Stopped& process) {
        auto descriptors = table.descriptors(process.holder());
        ASSERT_TRUE(descriptors) << descriptors.error().what;
        schema::Process& entry = processes.emplace_back();
        entry.pid = ProgramId(process.pid());
        entry.descriptors = std::move(*descriptors);
    }
    // Captures and kills.
    void take(Stopped& process) {
        capture::ObjectTable table;
        add(table, process);
        if (::testing::Test::HasFatalFailure()) return;
        finish(table);
        process.end();
    }
    [[nodiscard]] schema::Objects objects() const {
        auto image = open_objects_image(folder / "objects");
        EXPECT_TRUE(image) << image.error().what;
        return image ? image->objects : schema::Objects{};
    }
    [[nodiscard]] const schema::Object& object_at(const schema::Objects& all, int fd,
                                                  std::size_t process = 0) const {
        for (const schema::Descriptor& each : processes.at(process).descriptors)
            if (each.fd == ProgramFd(fd)) return all.objects.at(static_cast<std::size_t>(each.object));
        throw std::out_of_range("no such descriptor");
    }
    Result<restart::ObjectSet> open(restart::ObjectSetOptions options = {}) {
        auto image = TRY(open_objects_image(folder / "objects"));
        const auto room = TRY(find_descriptor_room(processes, image.objects, raise_descriptor_limit()));
        options.floor = room.floor;
        options.width = room.width;
        return restart::ObjectSet::open_all(image.objects, image.reader, options, notes);
    }
    // Opens everything, forks a process in place of each captured one, and runs `check` (given its index)
    // there. They run one after the other.
    void restore(const std::function<void(std::size_t)>& check,
                 const restart::ObjectSetOptions& options = {}) {
        auto set = open(options);
        ASSERT_TRUE(set) << set.error().what;
        // Each waits until the set is gone, for as long as it lives it holds the other ends of pipes.
        std::vector<std::pair<pid_t, Fd>> children;
        for (std::size_t i = 0; i < processes.size(); ++i) {
            int go[2];
            ASSERT_EQ(::pipe2(go, O_CLOEXEC), 0);
            const pid_t child = ::fork();
            if (child == 0) {
                const Fd messages(::fcntl(2, F_DUPFD, 1000)), wait(::fcntl(go[0], F_DUPFD, 1000));
                const int keep[] = {messages.get(), wait.get()};
                const KernelId self(::getpid());
                const auto done = set->install(processes[i], keep, [&](ProgramId id) {
                    return id == processes[i].pid ? self : kernel_id_of_same_number(id);
                });
                if (!done) ::dprintf(messages.get(), "install: %s\n", done.error().what.c_str());
                char byte;
                if (!done || ::read(wait.get(), &byte, 1) != 1) std::_Exit(1);
                check(i);
                std::_Exit(0);
            }
            ::close(go[0]);
            children.emplace_back(child, Fd(go[1]));
        }
        auto after = set->after_forest({}, {}, notes);
        ASSERT_TRUE(after) << after.error().what;
        auto image = open_objects_image(folder / "objects");
        ASSERT_TRUE(image) << image.error().what;
        auto changed = set->change_files(image->reader, notes);
        ASSERT_TRUE(changed) << changed.error().what;
        set = fail("done with");
        for (auto& [child, go] : children) {
            EXPECT_EQ(::write(go.get(), "g", 1), 1);
            int status = 0;
            ::waitpid(child, &status, 0);
            EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
        }
    }
};

// A descriptor is refused so, if it is the one at 120 in a process that has run `set_up`.
inline void expect_refused(const std::function<void()>& set_up, const std::string& words) {
    Stopped process(set_up);
    capture::ObjectTable table;
    const auto descriptors = table.descriptors(process.holder());
    ASSERT_FALSE(descriptors);
    EXPECT_EQ(descriptors.error().code, ExitCode::refused);
    EXPECT_EQ(descriptors.error().what,
              fmt::format("{}: descriptor 120: {}", proc::label(process.pid()), words));
}

inline bool readable(int fd, int ms = 0) {
    pollfd polled{fd, POLLIN, 0};
    return ::poll(&polled, 1, ms) == 1;
}

inline bool same_description(int a, int b) {
    return ::syscall(SYS_kcmp, ::getpid(), ::getpid(), 0, a, b) == 0;
}

}  // namespace cairn::test
