// Between the files of the test program `subject`.
#pragma once

#include <cerrno>

#include "common/region_ops.h"

namespace subject {

cairn::Region* region();

// Is the calling process registered as running?
bool is_member();

void expect(bool true_here, const char* text, const char* file, int line);

struct Command {
    const char* name;
    int (*run)(int argc, char** argv);
};
extern const Command commands[];
extern const int command_count;

// One for each file.
int births(int argc, char** argv);
int execs(int argc, char** argv);
int bare(int argc, char** argv);
int timing(int argc, char** argv);
int ids(int argc, char** argv);
int threads(int argc, char** argv);
int newcomers(int argc, char** argv);
int addresses(int argc, char** argv);

}  // namespace subject

// Ends the program with a message unless the condition holds.
#define EXPECT(condition) ::subject::expect((condition), #condition, __FILE__, __LINE__)
