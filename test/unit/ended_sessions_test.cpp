// Folders of sessions that are over go, those that somebody needs stay.
#include "coordinator/ended_sessions.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/fd.h"

namespace cairn::coordinator {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class EndedSessions : public testing::Test {
  protected:
    EndedSessions() {
        char name[] = "/tmp/cairn-ended-XXXXXX";
        folder_ = ::mkdtemp(name);
        ::setenv("CAIRN_RUNDIR", folder_.c_str(), 1);
    }
    ~EndedSessions() override {
        ::unsetenv("CAIRN_RUNDIR");
        fs::remove_all(folder_);
    }
    void session(const std::string& name, const std::vector<std::string>& files, std::chrono::hours old) {
        fs::create_directory(folder_ + "/" + name);
        for (const std::string& file : files) {
            const std::string path = folder_ + "/" + name + "/" + file;
            std::ofstream(path) << file;
            fs::last_write_time(path, fs::file_time_type::clock::now() - old);
        }
    }
    [[nodiscard]] bool there(const std::string& name) const { return fs::exists(folder_ + "/" + name); }
    [[nodiscard]] std::vector<std::string> remove() const {
        return remove_ended_sessions(*find_session("own"), 24h);
    }
    std::string folder_;
};

TEST_F(EndedSessions, goAfterADay) {
    session("over", {"lock", "coordinator.log", "pages"}, 25h);
    session("today", {"lock", "coordinator.log"}, 23h);
    session("own", {"lock", "coordinator.log"}, 48h);
    EXPECT_EQ(remove(), std::vector<std::string>{"over"});
    EXPECT_FALSE(there("over"));
    EXPECT_TRUE(there("today"));
    EXPECT_TRUE(there("own"));
}

TEST_F(EndedSessions, thatSomebodyNeedsStay) {
    for (const char* needed : {"region", "state.json", "users", "socket", "notes-of-mine"})
        session(needed, {"lock", "coordinator.log", needed}, 48h);
    session("no-lock", {"coordinator.log"}, 48h);
    session("held", {"lock", "coordinator.log"}, 48h);
    session("pages-held", {"lock", "pages"}, 48h);
    const Fd held(::open((folder_ + "/held/lock").c_str(), O_RDWR | O_CLOEXEC));
    const Fd pages(::open((folder_ + "/pages-held/pages").c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
    ASSERT_EQ(::flock(pages.get(), LOCK_EX), 0);
    EXPECT_EQ(remove(), std::vector<std::string>{});
    EXPECT_TRUE(there("region") && there("held") && there("pages-held") && there("notes-of-mine"));
}

}  // namespace
}  // namespace cairn::coordinator
