// Memory of hugetlb pages that is shared: a memfd, mapped and not, and (as root) anonymous memory, both with
// a child. The pages are as large as they were, and what nobody has touched isn't there.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>

#include "support.h"

namespace {

constexpr std::size_t huge = std::size_t{2} << 20;
constexpr unsigned two_mib = 21U << 26;  // MFD_HUGE_SHIFT, MAP_HUGE_SHIFT

// A field of smaps for the mapping at an address: kilobytes.
long kilobytes(const void* address, const std::string& field) {
    char wanted[32];
    std::snprintf(wanted, sizeof wanted, "%lx-", reinterpret_cast<unsigned long>(address));
    std::ifstream file("/proc/self/smaps");
    std::string line;
    bool here = false;
    while (std::getline(file, line)) {
        if (line.find('-') != std::string::npos && std::isxdigit(static_cast<unsigned char>(line[0])))
            here = line.starts_with(wanted);
        if (!here || !line.starts_with(field + ":")) continue;
        std::istringstream words(line.substr(field.size() + 1));
        long number = -1;
        words >> number;
        return number;
    }
    return -1;
}

char* map(int fd, std::size_t size, unsigned flags) {
    void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | static_cast<int>(flags), fd, 0);
    if (at == MAP_FAILED) test::skip("no huge pages are free");
    return static_cast<char*>(at);
}

// What shared anonymous memory holds is read by a path that the kernel opens for root only.
bool can_be_read(const char* memory) {
    char path[100];
    std::snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", reinterpret_cast<unsigned long>(memory),
                  reinterpret_cast<unsigned long>(memory + huge));
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && close(fd) == 0;
}

}  // namespace

int main() {
    const int file = memfd_create("huge", MFD_HUGETLB | two_mib | MFD_ALLOW_SEALING);
    const int unmapped = memfd_create("kept", MFD_HUGETLB | two_mib);
    if (file < 0 || unmapped < 0) test::skip("no huge pages in this kernel");
    CHECK(ftruncate(file, 2 * huge) == 0 && ftruncate(unmapped, huge) == 0);
    char* memory = map(file, 2 * huge, 0);
    char* for_a_moment = map(unmapped, huge, 0);
    std::strcpy(for_a_moment + 12345, "kept");
    CHECK(munmap(for_a_moment, huge) == 0);
    CHECK(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    char* anonymous = map(-1, huge, MAP_ANONYMOUS | MAP_HUGETLB | two_mib);
    if (!can_be_read(anonymous)) {
        CHECK(munmap(anonymous, huge) == 0);
        anonymous = nullptr;
    }

    std::strcpy(memory + 5000, "in the first page");
    std::memset(memory + huge - 4096, 7, 4096);  // the second one is never touched
    if (anonymous != nullptr) std::strcpy(anonymous + huge - 100, "anonymous");
    int orders[2], answers[2];
    CHECK(pipe(orders) == 0 && pipe(answers) == 0);
    const pid_t child = fork();
    if (child == 0)
        for (char order = 0; read(orders[0], &order, 1) == 1;) {
            CHECK(memory[0] == order);
            memory[1] = order;
            if (anonymous != nullptr) anonymous[0] = order;
            CHECK(write(answers[1], "y", 1) == 1);
        }
    char mark = 'a';
    test::serve([&](bool last) {
        CHECK(std::strcmp(memory + 5000, "in the first page") == 0);
        for (std::size_t i = huge - 4096; i < huge; ++i) CHECK(memory[i] == 7);
        for (const char* at : {memory, anonymous}) {
            if (at == nullptr) continue;
            CHECK(kilobytes(at, "KernelPageSize") == 2048 && kilobytes(at, "MMUPageSize") == 2048);
        }
        struct stat status {};
        struct statfs system {};
        for (const int fd : {file, unmapped}) {
            CHECK(fstat(fd, &status) == 0 && fstatfs(fd, &system) == 0);
            CHECK(system.f_bsize == huge &&
                  status.st_size == static_cast<off_t>(fd == file ? 2 * huge : huge));
            CHECK(static_cast<std::size_t>(status.st_blocks) == huge / 512);  // one page each
        }
        CHECK(fcntl(file, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW));
        const char* again = map(unmapped, huge, 0);
        CHECK(std::strcmp(again + 12345, "kept") == 0 && munmap(const_cast<char*>(again), huge) == 0);
        if (anonymous != nullptr) CHECK(std::strcmp(anonymous + huge - 100, "anonymous") == 0);
        mark = mark == 'z' ? 'a' : static_cast<char>(mark + 1);
        memory[0] = mark;
        char answer = 0;
        CHECK(write(orders[1], &mark, 1) == 1 && read(answers[0], &answer, 1) == 1);
        CHECK(memory[1] == mark && (anonymous == nullptr || anonymous[0] == mark));
        if (!last) return;
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child);
    });
}
