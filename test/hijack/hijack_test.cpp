// Runs the test program `subject` under libcairn.so with a region of its own, without a coordinator.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/region_ops.h"

namespace {

class Hijack : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = "/tmp/cairn-hijack-XXXXXX";
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        folder = name;
        const int fd = open((folder + "/region").c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        ASSERT_GE(fd, 0);
        ASSERT_EQ(ftruncate(fd, sizeof(cairn::Region)), 0);
        void* at = mmap(nullptr, sizeof(cairn::Region), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        ASSERT_NE(at, MAP_FAILED);
        region = static_cast<cairn::Region*>(at);
        region->version = cairn::region_version;
        region->magic = cairn::region_magic;
        // Some tests go on as an ordinary user.
        ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
        ASSERT_EQ(chmod((folder + "/region").c_str(), 0666), 0);
    }
    void TearDown() override {
        if (region != nullptr) munmap(region, sizeof(cairn::Region));
        std::filesystem::remove_all(folder);
    }

    // Wait status of a program run under the library. What it says on stderr is in `said`.
    int run(std::vector<std::string> arguments, std::vector<std::string> environment = {},
            bool member = true) {
        environment.emplace_back("LD_PRELOAD=" CAIRN_HIJACK_LIBRARY);
        environment.emplace_back("PATH=/usr/bin:/bin");
        if (member) {
            environment.emplace_back("CAIRN_LIBRARY=" CAIRN_HIJACK_LIBRARY);
            environment.emplace_back("CAIRN_REGION=" + folder + "/region");
        }
        std::array<int, 2> ends{}, gate{};
        EXPECT_EQ(pipe2(gate.data(), O_CLOEXEC), 0);
        EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
        const pid_t pid = fork();
        if (pid == 0) {
            std::vector<char*> given, variables;
            for (auto& text : arguments) given.push_back(text.data());
            for (auto& text : environment) variables.push_back(text.data());
            given.push_back(nullptr);
            variables.push_back(nullptr);
            dup2(ends[1], 2);
            close(gate[1]);
            char byte = 0;
            if (::read(gate[0], &byte, 1) != 0) _exit(125);
            execve(given[0], given.data(), variables.data());
            _exit(126);
        }
        close(ends[1]);
        close(gate[0]);
        if (virtual_ids) restored(pid);
        close(gate[1]);
        said.clear();
        std::array<char, 4096> buffer{};
        for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;)
            said.append(buffer.data(), static_cast<std::size_t>(n));
        close(ends[0]);
        int status = -1;
        EXPECT_EQ(waitpid(pid, &status, 0), pid);
        return status;
    }

    // As a restart leaves a process that goes by another pid than the kernel's.
    void restored(pid_t pid) {
        constexpr int far = 1'000'000;
        const cairn::KernelId kernel(pid);
        const cairn::ProgramId program(pid + far);
        EXPECT_TRUE(cairn::insert_id(region->ids, program, kernel));
        const std::int32_t slot = cairn::claim_slot(*region, cairn::KernelId(getpid()));
        cairn::name_slot(*region, slot, kernel);
        cairn::set_program_pid(region->slots[slot], kernel, program);
        region->slots[slot].flags = cairn::slot_restored;
        region->slots[slot].state = cairn::SlotState::exec;
    }

    bool virtual_ids = false;
    std::string folder, said;
    cairn::Region* region = nullptr;
};

TEST_F(Hijack, EveryWayToBeBornRegisters) {
    EXPECT_EQ(run({CAIRN_HIJACK_SUBJECT, "births"}), 0) << said;
    EXPECT_EQ(region->overflow.load(), 0U);
}

TEST_F(Hijack, EveryExecKeepsTheProgramInItsSession) {
    EXPECT_EQ(run({CAIRN_HIJACK_SUBJECT, "execs", folder, CAIRN_HIJACK_STATIC}), 0) << said;
    EXPECT_NE(said.find("cairn: exec of " + folder + "/narrow refused: 32-bit program"), std::string::npos)
        << said;
}

TEST_F(Hijack, SleepingCallsNoteWhenTheyBegan) {
    EXPECT_EQ(run({CAIRN_HIJACK_SUBJECT, "timing"}), 0) << said;
}

TEST_F(Hijack, WrongAddressesAreTheKernelsMatter) {
    EXPECT_EQ(run({CAIRN_HIJACK_SUBJECT, "addresses"}), 0) << said;
}

TEST_F(Hijack, WrongAddressesAreTheKernelsMatterWithVirtualIds) {
    virtual_ids = true;
    EXPECT_EQ(run({CAIRN_HIJACK_SUBJECT, "addresses"}), 0) << said;
}

TEST_F(Hijack, AProgramsOwnFunctionsAreNotCalledInPlaceOfOurs) {
    // Itself and two children: the library was there.
    EXPECT_EQ(run({CAIRN_HIJACK_OWN_FUNCTIONS}), 0) << said;
    EXPECT_GE(region->changes.load(), 3U);
    virtual_ids = true;
    EXPECT_EQ(run({CAIRN_HIJACK_OWN_FUNCTIONS}), 0) << said;
    EXPECT_GE(region->changes.load(), 6U);
}

TEST_F(Hijack, VirtualIdsOfProcesses) {
    virtual_ids = true;
    EXPECT_EQ(run({CAIRN_HIJACK_SUBJECT, "ids"}), 0) << said;
}

TEST_F(Hijack, VirtualIdsOfThreads) {
    virtual_ids = true;
    EXPECT_EQ(run({CAIRN_HIJACK_SUBJECT, "threads"}), 0) << said;
}

TEST_F(Hijack, NewcomersGetNobodysNumber) {
    virtual_ids = true;
    EXPECT_EQ(run({CAIRN_HIJACK_SUBJECT, "newcomers"}), 0) << said;
}

// All the other tests hold with virtual ids too.
TEST_F(Hijack, BirthsAndExecsWithVirtualIds) {
    virtual_ids = true;
    EXPECT_EQ(run({CAIRN_HIJACK_SUBJECT, "births"}), 0) << said;
    EXPECT_EQ(run({CAIRN_HIJACK_SUBJECT, "execs", folder, CAIRN_HIJACK_STATIC}), 0) << said;
    EXPECT_EQ(run({CAIRN_HIJACK_SUBJECT, "timing"}), 0) << said;
}

TEST_F(Hijack, WithoutARegionTheProgramRuns) {
    EXPECT_EQ(run({CAIRN_HIJACK_SUBJECT, "bare"}, {}, false), 0) << said;
    EXPECT_EQ(run({CAIRN_HIJACK_SUBJECT, "bare"}, {"CAIRN_REGION=/nonexistent", "CAIRN_LIBRARY=x"}, false), 0)
        << said;
    ASSERT_EQ(truncate((folder + "/region").c_str(), 4096), 0);  // too short to be touched
    EXPECT_EQ(run({CAIRN_HIJACK_SUBJECT, "bare"}), 0) << said;
}

TEST_F(Hijack, AnExecKeepsTheSlot) {
    EXPECT_EQ(run({"/bin/sh", "-c", "exec " CAIRN_HIJACK_SUBJECT " member"}), 0) << said;
    EXPECT_EQ(region->slots_end.load(), 1U);
    EXPECT_EQ(region->slots[0].image.load(), 2U);
}

TEST_F(Hijack, ARestoredProgramsChildrenBelongToTheSessionItIsInNow) {
    const std::string now = folder + "/now";
    ASSERT_EQ(link((folder + "/region").c_str(), now.c_str()), 0);
    now.copy(region->path, sizeof region->path - 1);
    const std::string asks = CAIRN_HIJACK_SUBJECT " variable CAIRN_REGION " + now;
    EXPECT_EQ(run({"/bin/sh", "-c", asks + "; exit $?"}), 0) << said;
    EXPECT_EQ(run({"/bin/sh", "-c", "exec " + asks}), 0) << said;
    EXPECT_EQ(run({"/usr/bin/perl", "-e", "exit system('" + asks + "') >> 8"}), 0) << said;
}

TEST_F(Hijack, ADeadMansSlotIsNotInherited) {
    // As a coordinator's death leaves it: all pids below 2^15 are in use by processes that have gone.
    for (std::int32_t i = 0; i < 64; ++i) {
        const std::int32_t slot = cairn::claim_slot(*region, cairn::KernelId(1));
        cairn::name_slot(*region, slot, cairn::KernelId(getpid() + i));
        region->slots[slot].born_ns.store(1);
        region->slots[slot].state.store(cairn::SlotState::running);
    }
    EXPECT_EQ(run({CAIRN_HIJACK_SUBJECT, "member"}), 0) << said;
    int renewed = 0;
    for (const auto& slot : region->slots)
        renewed += slot.state.load() == cairn::SlotState::running && slot.born_ns.load() != 1 ? 1 : 0;
    EXPECT_EQ(renewed, 1);
}

TEST_F(Hijack, AFullRegionIsCountedAndHurtsNobody) {
    while (cairn::claim_slot(*region, cairn::KernelId(1)) != cairn::no_slot) {
    }
    const auto before = region->overflow.load();
    EXPECT_EQ(run({"/bin/sh", "-c", "(true); true | cat"}), 0) << said;
    EXPECT_GT(region->overflow.load(), before);
}

}  // namespace
