// Descriptions of /dev/cpu_dma_latency are captured and restored without a checkpoint.
// root: /dev/cpu_dma_latency is root's
#include <sys/sysmacros.h>

#include <algorithm>

#include "resources/cpu_latency/schema_device.h"
#include "test/unit/objects_support.h"
#include "test/unit/without_capabilities.h"

namespace cairn::test {
namespace {

constexpr const char* latency_device = "/dev/cpu_dma_latency";

int open_latency(int flags, const std::string& path = latency_device) {
    return ::open(path.c_str(), flags | O_CLOEXEC);
}
#define NEED_LATENCY_DEVICE \
    if (!Fd(open_latency(O_RDWR))) GTEST_SKIP() << "/dev/cpu_dma_latency can't be opened"

std::int32_t strictest_latency() {
    std::int32_t told = 0;
    const Fd fd(open_latency(O_RDONLY));
    if (::read(fd.get(), &told, sizeof told) != sizeof told) std::abort();
    return told;
}
bool ask_latency(int fd, std::int32_t microseconds) {
    return ::write(fd, &microseconds, sizeof microseconds) == sizeof microseconds;
}
// So weak that no processor can tell. Others may ask for more meanwhile.
constexpr std::int32_t weak_latency = no_cpu_latency_request - 1000;

bool has_latency_note(const Checkpoint& checkpoint, std::string_view words) {
    return std::ranges::any_of(checkpoint.notes, [&](const std::string& note) {
        return note.contains(latency_device) && note.contains(words);
    });
}
std::optional<std::int32_t> saved_latency(const Checkpoint& checkpoint, int fd) {
    const schema::Objects objects = checkpoint.objects();
    const auto* saved = checkpoint.object_at(objects, fd).get<schema::CpuLatency>();
    EXPECT_NE(saved, nullptr);
    return saved == nullptr ? std::nullopt : saved->request;
}

TEST(ObjectsCpuLatency, AskAgain) {
    NEED_LATENCY_DEVICE;
    Stopped process([] {
        at(120, open_latency(O_RDWR | O_NONBLOCK));
        at(121, open_latency(O_WRONLY));
        at(122, open_latency(O_RDONLY));
        at(123, ::fcntl(120, F_DUPFD, 130));
        char told[3];
        CHILD_CHECK(ask_latency(120, weak_latency) && ask_latency(121, weak_latency + 1));
        CHILD_CHECK(::read(122, told, sizeof told) == sizeof told);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    EXPECT_LE(saved_latency(checkpoint, 120).value_or(no_cpu_latency_request), weak_latency);
    EXPECT_LE(saved_latency(checkpoint, 121).value_or(no_cpu_latency_request), weak_latency);
    EXPECT_FALSE(saved_latency(checkpoint, 122));
    EXPECT_TRUE(has_latency_note(checkpoint, "and so may other descriptions of the group"));
    checkpoint.restore([](std::size_t) {
        CHILD_CHECK(same_description(120, 123) && (::fcntl(120, F_GETFL) & O_NONBLOCK) != 0);
        CHILD_CHECK((::fcntl(121, F_GETFL) & O_ACCMODE) == O_WRONLY);
        std::int32_t value = 0;
        CHILD_CHECK(::read(122, &value, sizeof value) == 1 && ::read(122, &value, sizeof value) == 0);
        CHILD_CHECK(::read(120, &value, sizeof value) == sizeof value && value <= weak_latency);
        // Each of the two has its own.
        CHILD_CHECK(ask_latency(123, no_cpu_latency_request) && strictest_latency() <= weak_latency);
        CHILD_CHECK(ask_latency(123, weak_latency) && ask_latency(121, no_cpu_latency_request));
        CHILD_CHECK(strictest_latency() <= weak_latency);
    });
}

// Whether somebody else asks meanwhile can't be helped, but seen.
TEST(ObjectsCpuLatency, ThatNobodyHasAskedForIsNotAskedFor) {
    NEED_LATENCY_DEVICE;
    for (int turn = 0; turn < 100; ++turn) {
        const std::int32_t before = strictest_latency();
        Stopped process([] { at(120, open_latency(O_RDWR)); });
        Checkpoint checkpoint;
        checkpoint.take(process);
        // Somebody may have asked and taken it back in between, too.
        if (strictest_latency() != before ||
            saved_latency(checkpoint, 120).value_or(no_cpu_latency_request) != before)
            continue;
        if (before == no_cpu_latency_request) {
            EXPECT_FALSE(saved_latency(checkpoint, 120));
            EXPECT_FALSE(has_latency_note(checkpoint, ""));
        }
        checkpoint.restore([](std::size_t) { CHILD_CHECK((::fcntl(120, F_GETFL) & O_ACCMODE) == O_RDWR); });
        return;
    }
    FAIL() << "others ask for another latency all the time";
}

TEST(ObjectsCpuLatency, ThatSomebodyOutsideMayHaveAskedForIsNoted) {
    NEED_LATENCY_DEVICE;
    const auto ask = [](int flags) {
        return [=] {
            at(120, open_latency(flags));
            CHILD_CHECK(flags == O_RDONLY || ask_latency(120, weak_latency));
        };
    };
    Stopped process(ask(O_RDWR)), outside(ask(O_WRONLY)), reader(ask(O_RDONLY));
    Checkpoint checkpoint;
    checkpoint.take(process);
    // There may be others, but not one that can ask for nothing.
    EXPECT_TRUE(
        has_latency_note(checkpoint, ", which is outside: the kernel tells only the strictest request"));
    EXPECT_FALSE(has_latency_note(checkpoint, proc::label(reader.pid())));
    EXPECT_LE(saved_latency(checkpoint, 120).value_or(no_cpu_latency_request), weak_latency);
}

// The device by another name.
class OwnDevice {
  public:
    OwnDevice() {
        struct stat status {};
        EXPECT_EQ(::stat(latency_device, &status), 0);
        make(status.st_rdev);
    }
    // Not where its folder is mounted with nodev.
    [[nodiscard]] bool can_be_opened() const { return static_cast<bool>(Fd(open_latency(O_RDWR, path()))); }
    void make(dev_t number) const {
        ::unlink(path().c_str());
        EXPECT_EQ(::mknod(path().c_str(), S_IFCHR | 0600, number), 0);
    }
    [[nodiscard]] std::string path() const { return folder_ / "latency"; }

  private:
    Folder folder_;
};

TEST(ObjectsCpuLatency, IsKnownByItsNumber) {
    NEED_LATENCY_DEVICE;
    const OwnDevice device;
    if (!device.can_be_opened()) GTEST_SKIP() << "devices can't be opened in /tmp";
    Stopped process([&] { at(120, open_latency(O_RDWR, device.path())); });
    Checkpoint checkpoint;
    checkpoint.take(process);
    (void)saved_latency(checkpoint, 120);
    device.make(makedev(1, 3));
    const auto other = checkpoint.open();
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code, ExitCode::refused);
    EXPECT_TRUE(other.error().what.contains(
        device.path() +
        " is not the device cpu_dma_latency of /proc/misc, which a restored program had open"))
        << other.error().what;
    ::unlink(device.path().c_str());
    const auto none = checkpoint.open();
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ExitCode::refused);
    EXPECT_TRUE(none.error().what.contains("there is no " + device.path() + " here")) << none.error().what;
}

TEST(ObjectsCpuLatency, ThatMayNotBeOpenedIsRefused) {
    NEED_LATENCY_DEVICE;
    const OwnDevice device;
    if (!device.can_be_opened()) GTEST_SKIP() << "devices can't be opened in /tmp";
    const Fd inherited(open_latency(O_WRONLY, device.path()));
    ASSERT_EQ(::chmod(device.path().c_str(), 0), 0);
    const WithoutCapabilities less({CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH});
    expect_refused(
        [&] { at(120, ::dup(inherited.get())); },
        fmt::format("is a request for processors that wake up soon ({}), which you may not open, and "
                    "so a restart couldn't either: take the checkpoint as root, give yourself the "
                    "right (setfacl, a rule of udev's), or close it before a checkpoint",
                    device.path()));
}

}  // namespace
}  // namespace cairn::test
