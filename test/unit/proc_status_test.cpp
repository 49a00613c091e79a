// The lines of /proc/PID/status.
#include "common/proc_status.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <string>

#include "common/proc.h"

namespace cairn {
namespace {

TEST(ProcStatus, FindsLinesInAnyOrder) {
    const proc::Status status(
        "Name:\tabc\nUid:\t1\t2\t3\t4\nVmLck:\t       0 kB\nSeccomp:\t2\nSeccomp_filters:\t1\n");
    EXPECT_EQ(status["Seccomp_filters"], "1");
    EXPECT_EQ(status["Seccomp"], "2");
    EXPECT_EQ(status["VmLck"], "0 kB");
    EXPECT_EQ(status["Uid"], "1\t2\t3\t4");
    EXPECT_EQ(status["Uid"], "1\t2\t3\t4");
    EXPECT_EQ(status["Gid"], "");
    EXPECT_EQ(status["Name"], "abc");
    EXPECT_EQ(status["Sec"], "");
}

TEST(ProcStatus, SaysNothingOfNothing) {
    EXPECT_EQ(proc::Status("")["Name"], "");
    EXPECT_EQ(proc::Status("").name(), "");
    EXPECT_EQ(proc::Status("Name:")["Name"], "");
}

// The kernel escapes what would look like another line.
TEST(ProcStatus, HasTheNameThatTheThreadHas) {
    std::string before(16, '\0');
    ASSERT_EQ(::prctl(PR_GET_NAME, before.data()), 0);
    for (const char* name :
         {"a b", "  blanks ", "\tx", "back\\nslash", "line\nbreak", "\\", "\\\\n", "", "a\"b\ac"}) {
        ASSERT_EQ(::prctl(PR_SET_NAME, name), 0);
        const auto status = proc::status(::getpid(), ::gettid());
        ASSERT_TRUE(status);
        EXPECT_EQ(status->name(), name);
    }
    ::prctl(PR_SET_NAME, before.c_str());
}

}  // namespace
}  // namespace cairn
