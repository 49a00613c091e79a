// Memory of hugetlb pages that is private, of a System V segment, or of files on hugetlbfs: what was touched
// is there, be it zero, and nothing else; the pages are as large as they were.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>

#include "answering_child.h"
#include "support.h"

namespace {

constexpr std::size_t huge = std::size_t{2} << 20;
constexpr int two_mib = 21 << 26;  // MAP_HUGE_SHIFT, SHM_HUGE_SHIFT
constexpr int read_write = PROT_READ | PROT_WRITE;

// A field of smaps for the mapping that begins at an address: kilobytes, or the flags.
std::string smaps(const void* address, const std::string& field) {
    char wanted[32];
    std::snprintf(wanted, sizeof wanted, "%lx-", reinterpret_cast<unsigned long>(address));
    std::ifstream file("/proc/self/smaps");
    std::string line;
    bool here = false;
    while (std::getline(file, line)) {
        if (line.find('-') != std::string::npos && std::isxdigit(static_cast<unsigned char>(line[0])))
            here = line.starts_with(wanted);
        if (here && line.starts_with(field + ":")) return line.substr(field.size() + 1);
    }
    return "";
}

long kilobytes(const void* address, const std::string& field) {
    return std::strtol(smaps(address, field).c_str(), nullptr, 10);
}

char* map(std::size_t pages, int flags, int fd = -1, int prot = read_write) {
    void* at = mmap(nullptr, pages * huge, prot, flags, fd, 0);
    CHECK(at != MAP_FAILED);
    return static_cast<char*>(at);
}

test::Check anonymous() {
    char* memory = map(3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | two_mib);
    CHECK(madvise(memory + 2 * huge, huge, MADV_DONTFORK) == 0);
    std::strcpy(memory + 5000, "written");
    CHECK(static_cast<volatile char*>(memory)[huge] == 0);  // this makes the page
    auto* mark = new char('a');
    return [=](bool) {
        CHECK(std::strcmp(memory + 5000, "written") == 0);
        CHECK(kilobytes(memory, "KernelPageSize") == 2048 && kilobytes(memory, "Private_Hugetlb") == 4096);
        CHECK(smaps(memory, "VmFlags").find(" ht") != std::string::npos);
        CHECK(smaps(memory + 2 * huge, "VmFlags").find(" dc") != std::string::npos);
        CHECK(kilobytes(memory + 2 * huge, "Private_Hugetlb") == 0);
        CHECK(*mark == 'a' || memory[huge - 1] == *mark);
        memory[huge - 1] = ++*mark;
    };
}

// Without a reservation: what is there has to stay there, or the next touch could be SIGBUS.
test::Check unreserved() {
    char* memory = map(2, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE | two_mib);
    CHECK(static_cast<volatile char*>(memory)[0] == 0);
    CHECK(mprotect(memory, 2 * huge, PROT_READ) == 0);
    return [=](bool) {
        CHECK(smaps(memory, "VmFlags").find(" nr") != std::string::npos);
        CHECK(kilobytes(memory, "Private_Hugetlb") == 2048);
        CHECK(memory[huge - 1] == 0);
    };
}

test::Check forked() {
    char* memory = map(1, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | two_mib);
    memory[0] = 'm';
    const test::AnsweringChild child([memory](char order) {
        const char seen = memory[0];
        memory[0] = order;
        return seen;
    });
    CHECK(child.ask('a') == 'm');
    auto* last = new char('a');
    return [=](bool ending) {
        CHECK(memory[0] == 'm');
        const char next = *last == 'z' ? 'a' : static_cast<char>(*last + 1);
        CHECK(child.ask(next) == *last);
        *last = next;
        if (ending) child.end();
    };
}

// What a System V segment holds outlives its processes, and so has to be put back as well.
test::Check segment() {
    const int id = shmget(IPC_PRIVATE, 2 * huge, IPC_CREAT | SHM_HUGETLB | two_mib | 0600);
    if (id < 0) {
        CHECK(errno == EPERM);  // an ordinary user: only by the group of vm.hugetlb_shm_group
        return [](bool) {};
    }
    const int apart = shmget(IPC_PRIVATE, huge - 100, IPC_CREAT | SHM_HUGETLB | two_mib | 0600);
    CHECK(apart >= 0);
    char* memory = static_cast<char*>(shmat(id, nullptr, 0));
    char* second = static_cast<char*>(shmat(apart, nullptr, 0));
    CHECK(memory != reinterpret_cast<char*>(-1) && second != reinterpret_cast<char*>(-1));
    std::strcpy(memory + huge - 50, "over the end of a page");
    std::strcpy(second + 70000, "detached");
    CHECK(shmdt(second) == 0);
    auto* round = new int(0);
    return [=](bool last) {
        CHECK(std::strcmp(memory + huge - 50, "over the end of a page") == 0);
        CHECK(kilobytes(memory, "KernelPageSize") == 2048);
        CHECK(*reinterpret_cast<int*>(memory) == *round);
        *reinterpret_cast<int*>(memory) = ++*round;
        shmid_ds about{};
        CHECK(shmctl(id, IPC_STAT, &about) == 0 && about.shm_segsz == 2 * huge && about.shm_nattch == 1);
        char* again = static_cast<char*>(shmat(apart, nullptr, 0));
        CHECK(again != reinterpret_cast<char*>(-1) && std::strcmp(again + 70000, "detached") == 0);
        CHECK(kilobytes(again, "KernelPageSize") == 2048 && shmdt(again) == 0);
        if (last)
            CHECK(shmctl(apart, IPC_RMID, nullptr) == 0 && shmctl(id, IPC_RMID, nullptr) == 0 &&
                  shmdt(memory) == 0);
    };
}

// Nobody has a descriptor: an ordinary user's checkpoint reads it where it is mapped. What a process has
// written that has gone since is in nobody's page tables.
test::Check without_a_descriptor() {
    char* memory = map(2, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | two_mib);
    memory[0] = 1;
    const pid_t child = fork();
    if (child == 0) {
        memory[huge + 5] = 7;
        _exit(0);
    }
    CHECK(waitpid(child, nullptr, 0) == child);
    auto* rounds = new char(1);
    return [=](bool) {
        CHECK(memory[huge + 5] == 7 && memory[0] == *rounds);
        CHECK(kilobytes(memory, "KernelPageSize") == 2048);
        memory[0] = ++*rounds;
    };
}

std::string folder() {
    const char* at = std::getenv("CAIRN_TEST_HUGETLBFS");
    return at == nullptr ? "" : at;
}

int make(const std::string& name, std::size_t pages) {
    const std::string path = folder() + "/" + name;
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(pages * huge)) == 0);
    return fd;
}

// Mapped both ways, and open. It is there when the restart comes, and what was written to it since is undone.
test::Check named_file() {
    if (folder().empty()) return [](bool) {};
    const int fd = make("named", 3);
    char* shared = map(3, MAP_SHARED, fd);
    std::strcpy(shared + 100, "the file's");
    char* own = map(1, MAP_PRIVATE, fd);
    std::strcpy(own + 300, "our own");
    auto* rounds = new char(0);
    return [=](bool last) {
        CHECK(std::strcmp(shared + 100, "the file's") == 0 && shared[300] == 0);
        CHECK(std::strcmp(own + 100, "the file's") == 0 && std::strcmp(own + 300, "our own") == 0);
        CHECK(shared[huge + 9] == *rounds && shared[huge + 10] == 0);
        shared[huge + 9] = ++*rounds;
        struct stat status {
        }, there{};
        CHECK(fstat(fd, &status) == 0 && status.st_size == static_cast<off_t>(3 * huge));
        CHECK(stat((folder() + "/named").c_str(), &there) == 0 && there.st_ino == status.st_ino);
        CHECK(kilobytes(shared, "KernelPageSize") == 2048 && kilobytes(own, "KernelPageSize") == 2048);
        if (last) CHECK(unlink((folder() + "/named").c_str()) == 0);
    };
}

// As libhugetlbfs and qemu do it: a file that is removed at once.
test::Check removed_file() {
    if (folder().empty()) return [](bool) {};
    const int fd = make("removed", 2);
    CHECK(unlink((folder() + "/removed").c_str()) == 0);
    char* shared = map(2, MAP_SHARED, fd);
    std::strcpy(shared + huge, "second");
    const int other = make("private", 2);
    CHECK(unlink((folder() + "/private").c_str()) == 0);
    char* own = map(2, MAP_PRIVATE, other);
    CHECK(close(other) == 0);
    std::strcpy(own, "own");
    auto* rounds = new char(0);
    return [=](bool) {
        CHECK(std::strcmp(shared + huge, "second") == 0 && std::strcmp(own, "own") == 0);
        CHECK(kilobytes(shared, "KernelPageSize") == 2048 && kilobytes(own, "Private_Hugetlb") == 2048);
        struct stat status {};
        CHECK(fstat(fd, &status) == 0 && status.st_nlink == 0);
        CHECK(own[huge - 1] == *rounds && shared[9] == *rounds);
        own[huge - 1] = shared[9] = ++*rounds;
    };
}

}  // namespace

int main() {
    void* any = mmap(nullptr, huge, read_write, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | two_mib, -1, 0);
    if (any == MAP_FAILED) test::skip("no huge pages are free");
    CHECK(munmap(any, huge) == 0);
    test::serve({{"anonymous memory", anonymous},
                 {"anonymous memory without a reservation", unreserved},
                 {"shared by a fork", forked},
                 {"a System V segment", segment},
                 {"shared memory without a descriptor", without_a_descriptor},
                 {"a file with a name", named_file},
                 {"a file without a name", removed_file}});
}
