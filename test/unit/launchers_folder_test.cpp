// Which folders are taken for an MPI launcher's: common/launchers_folder.h.
#include "common/launchers_folder.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(LaunchersFolder, WhatIsBelowOne) {
    EXPECT_EQ(launchers_folder("/tmp/ompi.node1.1000/pid.77/hwloc.sm"), "/tmp/ompi.node1.1000");
    EXPECT_EQ(launchers_folder("/scratch/x/prte.a.b.example.0/pid.77"), "/scratch/x/prte.a.b.example.0");
}

TEST(LaunchersFolder, AndWhatIsNot) {
    for (const char* path :
         {"", "/", "/tmp/ompi.node1.1000", "/tmp/ompi.1000/x", "/tmp/ompi.node1.user/x", "/tmp/ompi.node1./x",
          "/tmp/my-ompi.node1.1000/x", "ompi.node1.1000/x", "/tmp/ompi./x"})
        EXPECT_EQ(launchers_folder(path), "") << path;
}

}  // namespace
}  // namespace cairn
