// Files captured and restored without a checkpoint.
#include <sys/stat.h>

#include "test/unit/objects_support.h"

namespace cairn::test {
namespace {

TEST(ObjectsFile, OffsetFlagsAndSharedDescription) {
    Folder folder;
    const std::string path = folder / "data";
    put_file(path, "0123456789");
    Stopped process([&] {
        const int fd = ::open(path.c_str(), O_RDWR | O_APPEND | O_NONBLOCK);
        CHILD_CHECK(::dup2(fd, 120) == 120 && ::dup2(fd, 121) == 121);
        CHILD_CHECK(::lseek(fd, 4, SEEK_SET) == 4);
        const int other = ::open(path.c_str(), O_RDONLY);
        CHILD_CHECK(::dup3(other, 122, O_CLOEXEC) == 122);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    for (const schema::Descriptor& each : checkpoint.processes.at(0).descriptors)
        EXPECT_TRUE(each.fd < ProgramFd(120) || each.close_on_exec == (each.fd == ProgramFd(122)));
    checkpoint.restore([&](std::size_t) {
        CHILD_CHECK(::lseek(120, 0, SEEK_CUR) == 4);
        CHILD_CHECK(::lseek(122, 0, SEEK_CUR) == 0);
        CHILD_CHECK((::fcntl(120, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK)) ==
                    (O_RDWR | O_APPEND | O_NONBLOCK));
        CHILD_CHECK((::fcntl(122, F_GETFL) & (O_ACCMODE | O_APPEND)) == O_RDONLY);
        CHILD_CHECK(same_description(120, 121) && !same_description(120, 122));
        CHILD_CHECK(::fcntl(119, F_GETFD) == -1 && ::fcntl(123, F_GETFD) == -1);
    });
}

TEST(ObjectsFile, SharedBetweenProcesses) {
    Folder folder;
    const std::string path = folder / "data";
    put_file(path, "0123456789");
    const Fd shared(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    Stopped first([&] { CHILD_CHECK(::dup2(shared.get(), 130) == 130); });
    Stopped second([&] {
        CHILD_CHECK(::dup2(shared.get(), 131) == 131);
        CHILD_CHECK(::lseek(131, 3, SEEK_SET) == 3);
    });
    Checkpoint checkpoint;
    capture::ObjectTable table;
    checkpoint.add(table, first);
    checkpoint.add(table, second);
    checkpoint.finish(table);
    first.end();
    second.end();
    const auto objects = checkpoint.objects();
    EXPECT_EQ(checkpoint.object_at(objects, 130, 0).id, checkpoint.object_at(objects, 131, 1).id);
    checkpoint.restore([&](std::size_t i) {
        // The first reads three bytes on; the second sees it.
        char text[3];
        CHILD_CHECK(::lseek(i == 0 ? 130 : 131, 0, SEEK_CUR) == (i == 0 ? 3 : 6));
        if (i == 0) CHILD_CHECK(::read(130, text, 3) == 3);
    });
}

TEST(ObjectsFile, DirectoryPathOnlyAndDevices) {
    Folder folder;
    put_file(folder / "data", "x");
    Stopped process([&] {
        CHILD_CHECK(::dup2(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY), 120) == 120);
        CHILD_CHECK(::dup2(::open((folder / "data").c_str(), O_PATH), 121) == 121);
        CHILD_CHECK(::symlink("nowhere", (folder / "link").c_str()) == 0);
        CHILD_CHECK(::dup2(::open((folder / "link").c_str(), O_PATH | O_NOFOLLOW), 122) == 122);
        int fd = 123;
        for (const char* device : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
            CHILD_CHECK(::dup2(::open(device, O_RDWR), fd++) >= 0);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    checkpoint.restore([&](std::size_t) {
        struct stat a {
        }, b{};
        CHILD_CHECK(::fstat(120, &a) == 0 && S_ISDIR(a.st_mode));
        CHILD_CHECK(::fstat(121, &a) == 0 && S_ISREG(a.st_mode) && (::fcntl(121, F_GETFL) & O_PATH));
        CHILD_CHECK(::fstat(122, &a) == 0 && S_ISLNK(a.st_mode));
        int fd = 123;
        for (const char* device : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
            CHILD_CHECK(::fstat(fd++, &a) == 0 && ::stat(device, &b) == 0 && a.st_rdev == b.st_rdev);
    });
}

TEST(ObjectsFile, DeletedFileKeepsContentsAndIsOneInode) {
    Folder folder;
    const std::string path = folder / "gone";
    Stopped process([&] {
        put_file(path, std::string(10000, 'a') + "end");
        CHILD_CHECK(::dup2(::open(path.c_str(), O_RDWR), 120) == 120);
        CHILD_CHECK(::dup2(::open(path.c_str(), O_RDONLY), 121) == 121);
        CHILD_CHECK(::ftruncate(120, 3 << 20) == 0);
        CHILD_CHECK(::pwrite(120, "far", 3, 2 << 20) == 3);
        CHILD_CHECK(::lseek(120, 10000, SEEK_SET) == 10000);
        CHILD_CHECK(::unlink(path.c_str()) == 0);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    EXPECT_FALSE(std::filesystem::exists(path));
    checkpoint.restore([&](std::size_t) {
        struct stat a {
        }, b{};
        CHILD_CHECK(::fstat(120, &a) == 0 && ::fstat(121, &b) == 0 && a.st_ino == b.st_ino);
        CHILD_CHECK(a.st_nlink == 0 && a.st_size == 3 << 20 && a.st_blocks < 1000);
        char text[4] = {};
        CHILD_CHECK(::read(120, text, 3) == 3 && std::string(text) == "end");
        CHILD_CHECK(::pread(121, text, 3, 2 << 20) == 3 && std::string(text) == "far");
        CHILD_CHECK(::lseek(121, 0, SEEK_CUR) == 0);
        CHILD_CHECK(::pwrite(120, "new", 3, 0) == 3 && ::pread(121, text, 3, 0) == 3 &&
                    std::string(text) == "new");
    });
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ObjectsFile, TemporaryFileCanStillBeLinked) {
    Folder folder;
    Stopped process([&] {
        CHILD_CHECK(::dup2(::open(folder.path().c_str(), O_TMPFILE | O_RDWR, 0640), 120) == 120);
        CHILD_CHECK(::write(120, "text", 4) == 4);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    checkpoint.restore([&](std::size_t) {
        CHILD_CHECK((::fcntl(120, F_GETFL) & O_TMPFILE) == O_TMPFILE && ::lseek(120, 0, SEEK_CUR) == 4);
        const std::string name = folder / "linked";
        CHILD_CHECK(::linkat(AT_FDCWD, "/proc/self/fd/120", AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0);
    });
    EXPECT_EQ(get_file(folder / "linked"), "text");
    EXPECT_EQ(std::filesystem::status(folder / "linked").permissions(), std::filesystem::perms{0640});
}

TEST(ObjectsFile, RenamedAndLinkedFilesAreFoundByTheirNewName) {
    Folder folder;
    Stopped process([&] {
        put_file(folder / "a", "A");
        put_file(folder / "b", "B");
        CHILD_CHECK(::dup2(::open((folder / "a").c_str(), O_RDONLY), 120) == 120);
        CHILD_CHECK(::dup2(::open((folder / "b").c_str(), O_RDONLY), 121) == 121);
        CHILD_CHECK(::rename((folder / "a").c_str(), (folder / "renamed").c_str()) == 0);
        CHILD_CHECK(::link((folder / "b").c_str(), (folder / "linked").c_str()) == 0);
        CHILD_CHECK(::unlink((folder / "b").c_str()) == 0);
        // A file whose name only looks as if it had been deleted.
        put_file(folder / "x (deleted)", "X");
        CHILD_CHECK(::dup2(::open((folder / "x (deleted)").c_str(), O_RDONLY), 122) == 122);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    const auto objects = checkpoint.objects();
    EXPECT_EQ(checkpoint.object_at(objects, 120).path, folder / "renamed");
    EXPECT_EQ(checkpoint.object_at(objects, 121).path, folder / "linked");
    EXPECT_EQ(checkpoint.object_at(objects, 122).path, folder / "x (deleted)");
    EXPECT_FALSE(checkpoint.object_at(objects, 122).deleted);
}

TEST(ObjectsFile, ProcFilesOfTheProcessItself) {
    Stopped process([&] {
        CHILD_CHECK(::dup2(::open("/proc/self/stat", O_RDONLY), 120) == 120);
        CHILD_CHECK(::dup2(::open("/proc/meminfo", O_RDONLY), 121) == 121);
        char text[5];
        CHILD_CHECK(::read(121, text, 5) == 5);
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    checkpoint.restore([&](std::size_t) {
        char text[64] = {};
        CHILD_CHECK(::read(120, text, 60) > 0 && std::atoi(text) == ::getpid());
        CHILD_CHECK(::lseek(121, 0, SEEK_CUR) == 5);
    });
}

// What happens to a file between the checkpoint and the restart.
class ObjectsChanged : public ::testing::Test {
  protected:
    void checkpoint_with(int flags) {
        put_file(path, "before");
        Stopped process([&] { CHILD_CHECK(::dup2(::open(path.c_str(), flags), 120) == 120); });
        checkpoint.take(process);
    }
    std::string problem(restart::FilePolicy policy = restart::FilePolicy::by_rule) {
        restart::ObjectSetOptions options;
        options.files = policy;
        auto set = checkpoint.open(options);
        return set ? "" : set.error().what;
    }
    Folder folder;
    std::string path = folder / "file";
    Checkpoint checkpoint;
};

TEST_F(ObjectsChanged, MissingIsRefusedByName) {
    checkpoint_with(O_RDONLY);
    std::filesystem::remove(path);
    EXPECT_NE(problem().find(path + ": No such file"), std::string::npos) << problem();
}
TEST_F(ObjectsChanged, AppendedLogIsCutBackWhenAllStandsAndWhatIsCutIsKept) {
    checkpoint_with(O_WRONLY | O_APPEND);
    put_file(path, "before and after");
    EXPECT_EQ(problem(), "");
    EXPECT_EQ(get_file(path), "before and after");
    checkpoint.restore([](std::size_t) {});
    EXPECT_EQ(get_file(path), "before");
    EXPECT_EQ(get_file(path + ".cut-1"), " and after");
}
TEST_F(ObjectsChanged, LogThatOthersMayAppendToIsNotCut) {
    checkpoint_with(O_WRONLY | O_APPEND);
    put_file(path, "before and after");
    ASSERT_EQ(::chmod(path.c_str(), 0660), 0);
    checkpoint.restore([](std::size_t) {});
    EXPECT_EQ(get_file(path), "before and after");
}
TEST_F(ObjectsChanged, LogThatIsOpenElsewhereIsNotCut) {
    checkpoint_with(O_WRONLY | O_APPEND);
    put_file(path, "before and after");
    Stopped other([&] { CHILD_CHECK(::dup2(::open(path.c_str(), O_WRONLY | O_APPEND), 120) == 120); });
    checkpoint.restore([](std::size_t) {});
    EXPECT_EQ(get_file(path), "before and after");
}
TEST_F(ObjectsChanged, WrittenFileIsCutOnDemandAndOnlyWhenAllStands) {
    checkpoint_with(O_RDWR);
    put_file(path, "before and after");
    EXPECT_EQ(problem(), "");
    EXPECT_EQ(get_file(path), "before and after");
    restart::ObjectSetOptions options;
    options.files = restart::FilePolicy::truncate;
    {
        auto set = checkpoint.open(options);
        ASSERT_TRUE(set) << set.error().what;
    }
    EXPECT_EQ(get_file(path), "before and after");
    checkpoint.restore([](std::size_t) {}, options);
    EXPECT_EQ(get_file(path), "before");
    EXPECT_EQ(get_file(path + ".cut-1"), " and after");
}
TEST_F(ObjectsChanged, WhatIsCutIsKeptAsideWithTheCheckpointIfNotBesideTheFile) {
    checkpoint_with(O_WRONLY | O_APPEND);
    put_file(path, "before and after");
    for (int number = 1; number < 10000; ++number) put_file(path + ".cut-" + std::to_string(number), "");
    Folder aside;
    restart::ObjectSetOptions options;
    options.files = restart::FilePolicy::truncate;
    options.directory = aside.path();
    checkpoint.restore([](std::size_t) {}, options);
    EXPECT_EQ(get_file(path), "before");
    EXPECT_EQ(get_file(aside / "file.cut-1"), " and after");
}
TEST_F(ObjectsChanged, NothingIsCutThatCantBeKept) {
    checkpoint_with(O_WRONLY | O_APPEND);
    put_file(path, "before and after");
    for (int number = 1; number < 10000; ++number) put_file(path + ".cut-" + std::to_string(number), "");
    restart::ObjectSetOptions options;
    options.files = restart::FilePolicy::truncate;
    auto set = checkpoint.open(options);
    ASSERT_TRUE(set) << set.error().what;
    auto image = open_objects_image(checkpoint.folder / "objects");
    ASSERT_TRUE(image);
    EXPECT_FALSE(set->change_files(image->reader, checkpoint.notes));
    EXPECT_EQ(get_file(path), "before and after");
}
TEST_F(ObjectsChanged, LinkInTheFilesPlaceIsRefused) {
    checkpoint_with(O_RDWR);
    std::filesystem::rename(path, folder / "other");
    std::filesystem::create_symlink(folder / "other", path);
    EXPECT_NE(problem().find("symbolic link"), std::string::npos) << problem();
}
TEST_F(ObjectsChanged, LinkInAFoldersPlaceIsRefused) {
    std::filesystem::create_directory(folder / "deep");
    path = folder / "deep/file";
    checkpoint_with(O_RDWR);
    std::filesystem::rename(folder / "deep", folder / "moved");
    std::filesystem::create_symlink(folder / "moved", folder / "deep");
    EXPECT_NE(problem().find("symbolic link"), std::string::npos) << problem();
}
TEST_F(ObjectsChanged, FifoInTheFilesPlaceIsRefusedAtOnce) {
    checkpoint_with(O_RDONLY);
    std::filesystem::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_NE(problem().find("is a FIFO now"), std::string::npos) << problem();
}
TEST_F(ObjectsChanged, AnotherFileOfTheSameSizeAndTimeIsRefused) {
    checkpoint_with(O_RDONLY);
    const auto time = std::filesystem::last_write_time(path);
    put_file(folder / "other", "BEFORE");
    std::filesystem::last_write_time(folder / "other", time);
    std::filesystem::rename(folder / "other", path);
    EXPECT_NE(problem().find("another file"), std::string::npos) << problem();
}
TEST_F(ObjectsChanged, InputThatHasChangedIsRefused) {
    checkpoint_with(O_RDONLY);
    put_file(path, "BEFORE");
    EXPECT_NE(problem().find("has other contents"), std::string::npos) << problem();
    EXPECT_EQ(problem(restart::FilePolicy::use), "");
}
TEST_F(ObjectsChanged, TouchedFileWithTheSameContentsIsFine) {
    checkpoint_with(O_RDONLY);
    put_file(path, "before");
    EXPECT_EQ(problem(restart::FilePolicy::refuse), "");
}
TEST_F(ObjectsChanged, FileThatIsADirectoryNowIsRefused) {
    checkpoint_with(O_RDONLY);
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
    EXPECT_NE(problem().find("is a directory now"), std::string::npos) << problem();
}

}  // namespace
}  // namespace cairn::test
