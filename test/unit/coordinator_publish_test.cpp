// A checkpoint's folder is complete or not there, whenever the coordinator dies.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/image/manifest.h"
#include "coordinator/publish.h"

namespace cairn::coordinator {
namespace {

namespace fs = std::filesystem;

class Publish : public testing::Test {
  protected:
    void SetUp() override {
        char name[] = "/tmp/cairn-publish-XXXXXX";
        ASSERT_NE(::mkdtemp(name), nullptr);
        root_ = name;
    }
    void TearDown() override { fs::remove_all(root_); }

    static schema::Manifest manifest(std::uint32_t generation) {
        schema::Manifest made;
        made.cid = "cid";
        made.np = 2;
        made.generation = static_cast<std::int32_t>(generation);
        made.session = "default";
        made.host = "h";
        made.taken_at_ns = 1'700'000'000'000'000'000;
        made.parts = {{0, "h", "/dev/pts/3", {ProgramId(100), ProgramId(101)}}};
        return made;
    }
    std::uint32_t take(const std::function<void(const char*)>& step = {}) {
        auto partial = begin_checkpoint(root_, "cid");
        EXPECT_TRUE(partial) << partial.error().what;
        std::ofstream(partial->partial() + "/image") << partial->generation;
        const auto notes = publish(*partial, manifest(partial->generation), step);
        EXPECT_TRUE(notes) << notes.error().what;
        return partial->generation;
    }
    [[nodiscard]] std::string text(const std::string& name) const {
        std::stringstream all;
        all << std::ifstream(root_ + "/" + name).rdbuf();
        return all.str();
    }
    [[nodiscard]] std::vector<std::uint32_t> generations() const {
        return complete_generations(root_ + "/cid");
    }

    std::string root_;
};

TEST_F(Publish, LeadsToTheNewest) {
    EXPECT_EQ(take(), 1U);
    EXPECT_EQ(take(), 2U);
    EXPECT_EQ(text("latest/image"), "2");
    EXPECT_TRUE(read_manifest(root_ + "/latest"));
    EXPECT_EQ(fs::canonical(root_ + "/restart.sh"), fs::canonical(root_ + "/cid/2/restart.sh"));
    EXPECT_FALSE(fs::exists(root_ + "/cid/2.partial"));
}

TEST_F(Publish, DeathAtEachStepLosesNothing) {
    take();
    for (const std::string death : {"manifest", "script", "sync", "rename", "latest", "restart", "done"}) {
        const auto before = generations();
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            take([&death](const char* step) {
                if (death == step) ::kill(::getpid(), SIGKILL);
            });
            ::_exit(0);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFSIGNALED(status)) << death;
        const auto after = generations();
        const bool renamed = death == "latest" || death == "restart" || death == "done";
        EXPECT_EQ(after.size(), before.size() + (renamed ? 1 : 0)) << death;
        for (const std::uint32_t generation : after) {
            const std::string folder = "cid/" + std::to_string(generation);
            EXPECT_EQ(text(folder + "/image"), std::to_string(generation));
            EXPECT_TRUE(read_manifest(root_ + "/" + folder));
            EXPECT_TRUE(fs::exists(root_ + "/" + folder + "/restart.sh"));
        }
        EXPECT_TRUE(read_manifest(root_ + "/latest")) << death;
        EXPECT_TRUE(fs::exists(root_ + "/restart.sh")) << death;
        // The next one tidies up and takes a number of its own.
        const std::uint32_t next = take();
        EXPECT_EQ(text("latest/image"), std::to_string(next));
        for (const auto& entry : fs::directory_iterator(root_ + "/cid"))
            EXPECT_FALSE(entry.path().string().ends_with(".partial")) << entry.path();
    }
}

TEST_F(Publish, TwoSessionsInOneFolderDoNotMeet) {
    auto first = begin_checkpoint(root_, "cid");
    ASSERT_TRUE(first);
    auto second = begin_checkpoint(root_, "cid");
    ASSERT_TRUE(second);
    EXPECT_NE(first->generation, second->generation);
    EXPECT_TRUE(fs::exists(first->partial())) << "somebody else's work is no leftover";
    ASSERT_TRUE(publish(*second, manifest(second->generation)));
    ASSERT_TRUE(publish(*first, manifest(first->generation)));
    EXPECT_EQ(generations().size(), 2U);
}

TEST_F(Publish, AbandonedLeavesNothing) {
    auto partial = begin_checkpoint(root_, "cid");
    ASSERT_TRUE(partial);
    std::ofstream(partial->partial() + "/image") << "half";
    abandon(*partial);
    EXPECT_TRUE(fs::is_empty(root_));
    EXPECT_EQ(take(), 1U);
}

TEST_F(Publish, WhatIsInTheWayIsLeftAloneAndNoCheckpointIsTaken) {
    std::ofstream(root_ + "/restart.sh") << "mine";
    const auto partial = begin_checkpoint(root_, "cid");
    ASSERT_FALSE(partial);
    EXPECT_EQ(partial.error().code, ExitCode::refused);
    EXPECT_NE(partial.error().what.find(root_ + "/restart.sh is in the way"), std::string::npos)
        << partial.error().what;
    EXPECT_EQ(text("restart.sh"), "mine");
    EXPECT_FALSE(fs::exists(root_ + "/cid"));
}

TEST_F(Publish, WhatGetsInTheWayMeanwhileIsAFailureToo) {
    auto partial = begin_checkpoint(root_, "cid");
    ASSERT_TRUE(partial);
    std::ofstream(root_ + "/restart.sh") << "mine";
    const auto notes = publish(*partial, manifest(1));
    ASSERT_FALSE(notes);
    EXPECT_NE(notes.error().what.find("is complete, but"), std::string::npos) << notes.error().what;
    EXPECT_EQ(text("restart.sh"), "mine");
    EXPECT_TRUE(read_manifest(root_ + "/cid/1"));
}

TEST_F(Publish, FoldersAreTheOwnersAloneWhateverTheUmask) {
    const auto mode = [&](const std::string& name) {
        struct stat status {};
        EXPECT_EQ(::stat((root_ + name).c_str(), &status), 0) << name;
        return status.st_mode & 07777;
    };
    for (const mode_t mask : {0U, 0777U}) {
        const std::string below = mask == 0 ? "/a" : "/b";
        const mode_t before = ::umask(mask);
        const auto partial = begin_checkpoint(root_ + below + "/c", "cid");
        ::umask(before);
        ASSERT_TRUE(partial) << partial.error().what;
        for (const char* name : {"", "/c", "/c/cid", "/c/cid/1.partial"})
            EXPECT_EQ(mode(below + name), 0700U);
    }
}

TEST_F(Publish, FolderBelowOneThatOthersCanWriteIsNoted) {
    fs::create_directory(root_ + "/all");
    ASSERT_EQ(::chmod((root_ + "/all").c_str(), 0777), 0);
    auto partial = begin_checkpoint(root_ + "/all/mine", "cid");
    ASSERT_TRUE(partial) << partial.error().what;
    const auto notes = publish(*partial, manifest(1));
    ASSERT_TRUE(notes) << notes.error().what;
    ASSERT_EQ(notes->size(), 1U);
    EXPECT_NE(notes->front().find(root_ + "/all can be written by everybody"), std::string::npos)
        << notes->front();
}

TEST_F(Publish, FolderThatOthersCanWriteIsRefused) {
    for (const char* name : {"", "/cid"}) {
        fs::create_directories(root_ + "/cid");
        ASSERT_EQ(::chmod((root_ + name).c_str(), 0770), 0);
        const auto partial = begin_checkpoint(root_, "cid");
        ASSERT_FALSE(partial) << name;
        EXPECT_EQ(partial.error().code, ExitCode::refused);
        EXPECT_NE(partial.error().what.find("chmod go-w"), std::string::npos) << partial.error().what;
        ASSERT_EQ(::chmod((root_ + name).c_str(), 0700), 0);
    }
}

TEST_F(Publish, PrunesTheOldest) {
    for (int i = 0; i < 5; ++i) take();
    EXPECT_TRUE(prune(root_, "cid", 0, {}).empty());
    EXPECT_EQ(prune(root_, "cid", 2, {root_ + "/cid/2"}), (std::vector<std::uint32_t>{1, 3}));
    EXPECT_EQ(generations(), (std::vector<std::uint32_t>{2, 4, 5}));
    EXPECT_EQ(prune(root_, "cid", 1, {}), (std::vector<std::uint32_t>{2, 4}));
    EXPECT_EQ(generations(), (std::vector<std::uint32_t>{5}));
    EXPECT_EQ(take(), 6U) << "numbers go on";
}

TEST_F(Publish, UnwritableFolderIsNamed) {
    std::ofstream(root_ + "/file") << "";
    const auto partial = begin_checkpoint(root_ + "/file/sub", "cid");
    ASSERT_FALSE(partial);
    EXPECT_NE(partial.error().what.find(root_ + "/file/sub"), std::string::npos);
}

TEST_F(Publish, ScriptFindsItsFolderAndPassesArguments) {
    const std::string odd = root_ + "/it's a $place";
    fs::create_directories(odd);
    std::ofstream(odd + "/cairn") << "#!/bin/sh\nprintf '%s|' \"$@\"\n";
    fs::permissions(odd + "/cairn", fs::perms::owner_all);
    schema::Manifest made = manifest(1);
    made.session = "x\nrm -rf nothing";
    std::ofstream(odd + "/restart.sh") << restart_script(made, odd + "/cairn");
    fs::permissions(odd + "/restart.sh", fs::perms::owner_all);
    fs::create_symlink(odd + "/restart.sh", root_ + "/link.sh");
    ::unsetenv("CAIRN");
    FILE* out = ::popen((root_ + "/link.sh --part 1 'a b'").c_str(), "r");
    ASSERT_NE(out, nullptr);
    char line[1024] = "";
    ASSERT_NE(std::fgets(line, sizeof line, out), nullptr);
    ::pclose(out);
    EXPECT_EQ(std::string(line), "restart|" + odd + "|--part|1|a b|");
}

}  // namespace
}  // namespace cairn::coordinator
