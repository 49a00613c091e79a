// A small file that is written to by a mapping only, and whose name others take away (mapped_gone.py), as
// they do with java's /tmp/hsperfdata_USER/PID: mapped_gone.cpp [PATH]. The mapping and the file by that name
// are one.
// rain: soak
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "support.h"

int main(int argc, char** argv) {
    const char* const path = argc > 1 ? argv[1] : "mapped";
    constexpr size_t size = 32768;
    const int made = open(path, O_RDWR | O_CREAT | O_EXCL, 0640);
    CHECK(made >= 0 && ftruncate(made, size) == 0);
    void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0);
    CHECK(at != MAP_FAILED && close(made) == 0);
    auto* memory = static_cast<unsigned char*>(at);
    for (size_t i = 0; i < size / 2; ++i) memory[i] = static_cast<unsigned char>(i % 251);
    unsigned char round = 0;
    test::serve([&](bool) {
        CHECK(memory[size - 1] == round);
        for (size_t i = 0; i < size / 2; ++i) CHECK(memory[i] == i % 251);
        memory[size - 1] = ++round;
        const int file = open(path, O_RDONLY);
        struct stat status {};
        CHECK(file >= 0 && fstat(file, &status) == 0 && status.st_size == size);
        CHECK((status.st_mode & 07777) == 0640 && status.st_uid == geteuid());
        unsigned char last = 0;
        CHECK(pread(file, &last, 1, size - 1) == 1 && last == round && close(file) == 0);
    });
}
