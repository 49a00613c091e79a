// Which programs can be preloaded, by their ELF headers.
// root: only root becomes another user and sets file capabilities
#include "common/elf_check.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace cairn {
namespace {

// A small ELF file: a header, one program header of each kind asked for, the loader's name.
struct Elf {
    unsigned char elf_class = ELFCLASS64;
    std::uint16_t machine = EM_X86_64;
    std::string loader;  // "" for none

    [[nodiscard]] std::string bytes() const {
        Elf64_Ehdr header{};
        std::memcpy(header.e_ident, ELFMAG, SELFMAG);
        header.e_ident[EI_CLASS] = elf_class;
        header.e_type = ET_DYN;
        header.e_machine = machine;
        header.e_phoff = sizeof header;
        header.e_phentsize = sizeof(Elf64_Phdr);
        header.e_phnum = 2;
        Elf64_Phdr load{};
        load.p_type = PT_LOAD;
        Elf64_Phdr last{};
        last.p_type = loader.empty() ? PT_GNU_STACK : PT_INTERP;
        last.p_offset = sizeof header + 2 * sizeof load;
        last.p_filesz = loader.size() + 1;
        std::string text(reinterpret_cast<const char*>(&header), sizeof header);
        text.append(reinterpret_cast<const char*>(&load), sizeof load);
        text.append(reinterpret_cast<const char*>(&last), sizeof last);
        return text + loader + '\0';
    }
};

constexpr const char* glibc = "/lib64/ld-linux-x86-64.so.2";

class ElfCheck : public testing::Test {
  protected:
    void SetUp() override {
        std::string form = (std::filesystem::temp_directory_path() / "cairn-elf-XXXXXX").string();
        ASSERT_NE(::mkdtemp(form.data()), nullptr);
        folder_ = form;
        ::chmod(form.c_str(), 0755);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::string put(const std::string& name, const std::string& bytes, mode_t mode = 0755) {
        const std::string path = folder_ + "/" + name;
        std::ofstream(path, std::ios::binary) << bytes;
        ::chmod(path.c_str(), mode);
        return path;
    }
    static ProgramCheck check(const std::string& path) { return check_program(AT_FDCWD, path.c_str()); }

    // The verdict as seen by uid and gid 1234 without capabilities.
    static ProgramKind check_as_user(const std::string& path) {
        const pid_t child = ::fork();
        if (child == 0) {
            if (::setgid(1234) != 0 || ::setuid(1234) != 0) ::_exit(99);
            ::_exit(static_cast<int>(check(path).kind));
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        return static_cast<ProgramKind>(WEXITSTATUS(status));
    }

    std::string folder_;
};

TEST_F(ElfCheck, DynamicProgramIsFine) {
    const ProgramCheck verdict = check(put("p", Elf{.loader = glibc}.bytes()));
    EXPECT_EQ(verdict.kind, ProgramKind::dynamic);
    EXPECT_FALSE(verdict.refused());
    EXPECT_STREQ(verdict.reason, "");
    EXPECT_EQ(check("/proc/self/exe").kind, ProgramKind::dynamic);
}

TEST_F(ElfCheck, StaticProgramIsAMemberWithoutTheLibrary) {
    const ProgramCheck verdict = check(put("p", Elf{}.bytes()));
    EXPECT_EQ(verdict.kind, ProgramKind::static_program);
    EXPECT_TRUE(verdict.member() && verdict.without_library());
    EXPECT_FALSE(verdict.refused());
    EXPECT_LT(std::strlen(verdict.reason), 64U);
}

TEST_F(ElfCheck, OwnCommandIsToldByItsNote) {
    const char note[] = "\6\0\0\0\0\0\0\0\1\0\0\0cairn\0\0";  // sizes of name and contents, type, name
    std::string bytes = Elf{}.bytes();
    Elf64_Phdr notes{};
    notes.p_type = PT_NOTE;
    notes.p_offset = bytes.size();
    notes.p_filesz = sizeof note;
    notes.p_align = 4;
    std::memcpy(bytes.data() + sizeof(Elf64_Ehdr), &notes, sizeof notes);
    const ProgramCheck own = check(put("own", bytes + std::string(note, sizeof note)));
    EXPECT_EQ(own.kind, ProgramKind::own_tool);
    EXPECT_FALSE(own.refused() || own.member());
    bytes += std::string(note, sizeof note);
    bytes[notes.p_offset + 12] = 'C';
    EXPECT_EQ(check(put("other", bytes)).kind, ProgramKind::static_program);
}

TEST_F(ElfCheck, LoaderAsACommandIsFine) {
    EXPECT_EQ(check(put("ld-linux-x86-64.so.2", Elf{}.bytes())).kind, ProgramKind::dynamic);
}

TEST_F(ElfCheck, AnotherLibcsProgramIsAMemberWithoutTheLibrary) {
    const ProgramCheck verdict = check(put("musl", Elf{.loader = "/lib/ld-musl-x86_64.so.1"}.bytes()));
    EXPECT_EQ(verdict.kind, ProgramKind::other_loader);
    EXPECT_TRUE(verdict.member() && verdict.without_library());
}

TEST_F(ElfCheck, OtherMachinesAreRefused) {
    EXPECT_EQ(check(put("arm", Elf{.machine = EM_AARCH64, .loader = glibc}.bytes())).kind,
              ProgramKind::other_machine);
    EXPECT_EQ(check(put("i386", Elf{.elf_class = ELFCLASS32, .machine = EM_386, .loader = ""}.bytes())).kind,
              ProgramKind::other_machine);
}

TEST_F(ElfCheck, DamagedFilesHaveNoFormat) {
    EXPECT_EQ(check(put("cut", Elf{.loader = glibc}.bytes().substr(0, 40))).kind,
              ProgramKind::unknown_format);
    EXPECT_EQ(check(put("empty", "")).kind, ProgramKind::unknown_format);
    EXPECT_EQ(check(put("text", "echo hello\n")).kind, ProgramKind::unknown_format);
}

TEST_F(ElfCheck, NotFoundAndNotExecutable) {
    EXPECT_EQ(check(folder_ + "/nothing").kind, ProgramKind::not_found);
    EXPECT_EQ(check(put("plain", Elf{}.bytes(), 0644)).kind, ProgramKind::not_executable);
    EXPECT_EQ(check(folder_).kind, ProgramKind::not_executable);
    EXPECT_EQ(check(folder_ + "/plain/below").kind, ProgramKind::not_found);
    ASSERT_EQ(::mkfifo((folder_ + "/fifo").c_str(), 0755), 0);
    EXPECT_EQ(check(folder_ + "/fifo").kind, ProgramKind::not_executable);  // and doesn't wait for a writer
}

TEST_F(ElfCheck, ScriptsLeadToTheirInterpreter) {
    const std::string fine = put("fine", Elf{.loader = glibc}.bytes());
    const std::string fixed = put("fixed", Elf{}.bytes());
    EXPECT_EQ(check(put("a", "#!" + fine + "\n")).kind, ProgramKind::dynamic);
    const std::string second = put("b", "#! \t" + fixed + " -x y\n");
    EXPECT_EQ(check(second).kind, ProgramKind::static_program);
    const ProgramCheck through = check(put("c", "#!" + second));
    EXPECT_EQ(through.kind, ProgramKind::static_program);
    EXPECT_EQ(through.file, fixed);
    const ProgramCheck missing = check(put("d", "#!/no/such/program\n"));
    EXPECT_EQ(missing.kind, ProgramKind::not_found);
    EXPECT_STREQ(missing.file, "/no/such/program");
    EXPECT_EQ(check(put("e", "#!   \n")).kind, ProgramKind::unknown_format);
    const std::string loop = folder_ + "/loop";
    EXPECT_EQ(check(put("loop", "#!" + loop + "\n")).error, ELOOP);
}

TEST_F(ElfCheck, AlsoByDescriptor) {
    for (const int flags : {O_RDONLY, O_PATH}) {
        const int fd = ::open(put("p", Elf{}.bytes()).c_str(), flags | O_CLOEXEC);
        EXPECT_EQ(check_program(fd, "", AT_EMPTY_PATH).kind, ProgramKind::static_program);
        ::close(fd);
    }
    const int memory = ::memfd_create("program", MFD_CLOEXEC);
    const std::string bytes = Elf{.loader = glibc}.bytes();
    ASSERT_EQ(::write(memory, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    EXPECT_EQ(check_program(memory, "", AT_EMPTY_PATH).kind, ProgramKind::dynamic);
    ::close(memory);
}

TEST_F(ElfCheck, RelativeToAFolder) {
    put("p", Elf{}.bytes());
    const int folder = ::open(folder_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    EXPECT_EQ(check_program(folder, "p").kind, ProgramKind::static_program);
    ::close(folder);
}

TEST_F(ElfCheck, KeepsErrno) {
    errno = EXDEV;
    static_cast<void>(check(folder_ + "/nothing"));
    EXPECT_EQ(errno, EXDEV);
}

TEST_F(ElfCheck, SetIdCountsOnlyWhereTheIdChanges) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
    const std::string program = put("p", Elf{.loader = glibc}.bytes(), 04755);
    EXPECT_EQ(check(program).kind, ProgramKind::dynamic);
    EXPECT_EQ(check_as_user(program), ProgramKind::secure);
    ::chmod(program.c_str(), 02755);
    EXPECT_EQ(check_as_user(program), ProgramKind::secure);
    ::chmod(program.c_str(), 02745);  // setgid without group execute: ignored by exec
    EXPECT_EQ(check_as_user(program), ProgramKind::dynamic);
    ::chmod(program.c_str(), 0711);
    EXPECT_EQ(check_as_user(program), ProgramKind::unreadable);
}

TEST_F(ElfCheck, FileCapabilitiesCountForUsersOnly) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to set file capabilities";
    const std::string program = put("p", Elf{.loader = glibc}.bytes());
    vfs_cap_data data{};
    data.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE;
    data.data[0].permitted = 1U << CAP_NET_RAW;
    if (::syscall(SYS_setxattr, program.c_str(), "security.capability", &data, XATTR_CAPS_SZ_2, 0) != 0)
        GTEST_SKIP() << "this file system has no capabilities: " << std::strerror(errno);
    EXPECT_EQ(check(program).kind, ProgramKind::dynamic);
    EXPECT_EQ(check_as_user(program), ProgramKind::secure);
}

TEST_F(ElfCheck, OverflowIdIsMappedOnlyWhereTheMapSaysSo) {
    using elf_check_detail::id_mapped;
    EXPECT_TRUE(id_mapped(65534, put("all", "         0          0 4294967295\n").c_str()));
    EXPECT_FALSE(id_mapped(65534, put("root", "         0       1000          1\n").c_str()));
    EXPECT_TRUE(id_mapped(65534, put("two", "0 1000 1\n65534 70000 1\n").c_str()));
    EXPECT_TRUE(id_mapped(5, put("low", "0 1000 1\n").c_str()));
}

}  // namespace
}  // namespace cairn
