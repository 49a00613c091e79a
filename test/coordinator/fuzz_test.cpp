// Conversations with a whole coordinator, changed at random; see test/fuzz/coordinator_fuzz.cpp.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "common/fd.h"
#include "test/fuzz/try_out.h"

extern "C" int fuzz_coordinator(const std::uint8_t* bytes, std::size_t size);

namespace cairn {
namespace {

TEST(Fuzz, Conversations) {
    const auto seeds = fuzz::seeds_in(CAIRN_TEST_FOLDER "/../fuzz/talk_seeds");
    ASSERT_GE(seeds.size(), 3U);
    const char* wanted = std::getenv("CAIRN_CASES");
    const int changes = wanted != nullptr ? std::atoi(wanted) : 100;
    // A coordinator tells all it hears.
    const Fd out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)), null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    (void)std::fflush(stdout);
    ::dup2(null.get(), STDOUT_FILENO);
    fuzz::try_out(fuzz_coordinator, seeds, changes);
    (void)std::fflush(stdout);
    ::dup2(out.get(), STDOUT_FILENO);
}

}  // namespace
}  // namespace cairn
