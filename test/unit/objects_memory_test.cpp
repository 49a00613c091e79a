// Memory that has a descriptor, captured and restored without a checkpoint.
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstring>

#include "test/unit/objects_support.h"

namespace cairn::test {
namespace {

constexpr std::size_t megabyte = 1 << 20;

// The mapping of the stopped process that begins at `at`.
capture::Mapping mapping_at(const Stopped& process, const void* at) {
    auto lines = proc::maps(process.pid(), true);
    EXPECT_TRUE(lines);
    for (const proc::MapLine& line : *lines) {
        if (line.start.value() != reinterpret_cast<std::uintptr_t>(at)) continue;
        return {line.start, line.end,     line.offset, makedev(line.major, line.minor),           line.inode,
                line.name,  line.deleted, line.shared, line.flags.find("mw") != std::string::npos};
    }
    ADD_FAILURE() << "no mapping";
    return {};
}

// Mapped before the fork, so that parent and child agree on the address.
struct SharedMemory {
    explicit SharedMemory(std::size_t bytes, int fd = -1)
        : size(bytes),
          at(static_cast<char*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                       MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0))) {}
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;
    ~SharedMemory() { ::munmap(at, size); }
    std::size_t size;
    char* at;
};

std::string text_at(int fd, off_t at) {
    char text[8] = {};
    return ::pread(fd, text, 4, at) == 4 ? text : "?";
}

// All memory without a name is of one file system, in which a segment's inode has the segment's id for a
// number.
TEST(ObjectsMemory, ASegmentIsNotTakenForOtherMemoryOfItsNumber) {
    SharedMemory memory(megabyte);
    Stopped process([] {});
    capture::ObjectTable table;
    const auto nameless = mapping_at(process, memory.at);
    auto segment = nameless;
    segment.path = "/SYSV00000000";
    const auto one = table.shared_memory(process.holder(), nameless);
    const auto other = table.shared_memory(process.holder(), segment);
    ASSERT_TRUE(one && other);
    EXPECT_NE(*one, *other);
}

TEST(ObjectsMemory, SharedAnonymousThroughTheMappings) {
    SharedMemory memory(8 * megabyte);
    std::strcpy(memory.at + 4096, "low ");
    std::strcpy(memory.at + 7 * megabyte, "high");
    Stopped process([&] { ::mprotect(memory.at, megabyte, PROT_NONE); });
    Checkpoint checkpoint;
    capture::ObjectTable table;
    const auto low = mapping_at(process, memory.at), high = mapping_at(process, memory.at + megabyte);
    EXPECT_TRUE(capture::ObjectTable::is_shared_memory(low));
    auto id = table.shared_memory(process.holder(), low);
    ASSERT_TRUE(id) << id.error().what;
    auto same = table.shared_memory(process.holder(), high);
    ASSERT_TRUE(same && *same == *id);
    checkpoint.finish(table);
    const auto objects = checkpoint.objects();
    std::uint64_t stored = 0;
    for (const schema::ObjectRun& run : objects.objects[0].get<schema::Memory>()->pages) stored += run.length;
    EXPECT_EQ(stored, 2U * 4096);
    auto set = checkpoint.open();
    ASSERT_TRUE(set) << set.error().what;
    const int fd = set->fd_of(*id);
    struct stat status {};
    ASSERT_EQ(::fstat(fd, &status), 0);
    EXPECT_EQ(status.st_size, static_cast<off_t>(8 * megabyte));
    EXPECT_EQ(text_at(fd, 4096), "low ");
    EXPECT_EQ(text_at(fd, 7 * megabyte), "high");
    SharedMemory again(8 * megabyte, fd);
    EXPECT_NE(static_cast<void*>(again.at), MAP_FAILED);
}

TEST(ObjectsMemory, MemfdWithSealsByDescriptorAndMapping) {
    const Fd memfd(::memfd_create("shapes", MFD_ALLOW_SEALING | MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(memfd.get(), 3 * megabyte), 0);
    SharedMemory memory(3 * megabyte, memfd.get());
    std::strcpy(memory.at, "data");
    ASSERT_EQ(::fcntl(memfd.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE), 0);
    Stopped process([&] {
        CHILD_CHECK(::dup2(memfd.get(), 120) == 120);
        CHILD_CHECK(::lseek(120, 17, SEEK_SET) == 17);
    });
    Checkpoint checkpoint;
    capture::ObjectTable table;
    checkpoint.add(table, process);
    auto id = table.shared_memory(process.holder(), mapping_at(process, memory.at));
    ASSERT_TRUE(id) << id.error().what;
    checkpoint.finish(table);
    process.end();
    const auto objects = checkpoint.objects();
    EXPECT_EQ(checkpoint.object_at(objects, 120).backing, *id);
    auto set = checkpoint.open();
    ASSERT_TRUE(set) << set.error().what;
    {
        SharedMemory again(3 * megabyte, set->fd_of(*id));
        ASSERT_NE(static_cast<void*>(again.at), MAP_FAILED);
        ASSERT_TRUE(set->after_forest({}, {}, checkpoint.notes));
        std::strcpy(again.at + 5000, "more");
    }
    checkpoint.restore([&](std::size_t) {
        auto link = proc::read_link("/proc/self/fd/120");
        CHILD_CHECK(link && *link == "/memfd:shapes (deleted)");
        CHILD_CHECK(::fcntl(120, F_GET_SEALS) == (F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE));
        CHILD_CHECK(::lseek(120, 0, SEEK_CUR) == 17 && text_at(120, 0) == "data");
    });
}

TEST(ObjectsMemory, DeletedFileThatIsOnlyMapped) {
    Folder folder;
    put_file(folder / "lib", std::string(megabyte, 'x') + "tail");
    const Fd file(::open((folder / "lib").c_str(), O_RDWR | O_CLOEXEC));
    char* const at =
        static_cast<char*>(::mmap(nullptr, 2 * megabyte, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 0));
    Stopped process([&] { std::strcpy(at + 8192, "changed here only"); });
    std::filesystem::remove(folder / "lib");
    Checkpoint checkpoint;
    capture::ObjectTable table;
    auto id = table.mapped_file(process.holder(), mapping_at(process, at));
    ASSERT_TRUE(id) << id.error().what;
    checkpoint.finish(table);
    ::munmap(at, 2 * megabyte);
    auto set = checkpoint.open();
    ASSERT_TRUE(set) << set.error().what;
    EXPECT_EQ(text_at(set->fd_of(*id), megabyte), "tail");
    EXPECT_EQ(text_at(set->fd_of(*id), 0), "xxxx");
}

TEST(ObjectsMemory, NamedSharedMemoryIsMadeAgain) {
    const std::string name = fmt::format("/dev/shm/cairn-test-{}", ::getpid());
    put_file(name, "shared");
    Stopped process([&] { CHILD_CHECK(::dup2(::open(name.c_str(), O_RDWR), 120) == 120); });
    Checkpoint checkpoint;
    checkpoint.take(process);
    std::filesystem::remove(name);
    checkpoint.restore([&](std::size_t) { CHILD_CHECK(text_at(120, 0) == "shar"); });
    EXPECT_EQ(get_file(name), "shared");
    put_file(name, "written on after the checkpoint");
    checkpoint.restore([&](std::size_t) { CHILD_CHECK(text_at(120, 0) == "shar"); });
    EXPECT_EQ(get_file(name), "shared");
    std::filesystem::remove(name);
}

TEST(ObjectsMemory, ExecutableCwdAndMappedFile) {
    Folder folder;
    std::filesystem::copy_file("/bin/sleep", folder / "sleep");
    Stopped process([&] { CHILD_CHECK(::chdir(folder.path().c_str()) == 0); });
    const pid_t child = ::fork();
    if (child == 0) {
        ::execl((folder / "sleep").c_str(), "sleep", "20", nullptr);
        std::_Exit(1);
    }
    while (proc::read_link(fmt::format("/proc/{}/exe", child)).value_or("") != folder / "sleep")
        ::usleep(1000);
    std::filesystem::remove(folder / "sleep");
    Checkpoint checkpoint;
    capture::ObjectTable table;
    auto exe = table.file(process.holder(), "exe"), cwd = table.file(process.holder(), "cwd"),
         root = table.file(process.holder(), "root");
    ASSERT_TRUE(exe && cwd && root);
    EXPECT_EQ(*root, -1);
    EXPECT_TRUE(table.object(*exe).get<schema::File>()->relied_on);
    EXPECT_EQ(table.object(*cwd).path, folder.path());
    const Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
    auto gone = table.file({child, pidfd.get(), 0}, "exe");
    ASSERT_TRUE(gone) << gone.error().what;
    checkpoint.finish(table);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    auto set = checkpoint.open();
    ASSERT_TRUE(set) << set.error().what;
    EXPECT_EQ(::fchdir(set->fd_of(*cwd)), 0);
    EXPECT_EQ(::chdir("/"), 0);
    // An executable that had been deleted can still be executed.
    const pid_t again = ::fork();
    if (again == 0) {
        const char* arguments[] = {"sleep", "0", nullptr};
        ::fexecve(set->fd_of(*gone), const_cast<char**>(arguments), environ);
        std::perror("fexecve");
        std::_Exit(1);
    }
    int status = 0;
    ::waitpid(again, &status, 0);
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace cairn::test
