// What /proc/PID/mountinfo says is understood, whatever the names and the order.
#include <gtest/gtest.h>

#include "resources/namespace/schema_mounts.h"

namespace cairn::schema {
namespace {

TEST(MountLines, AreRead) {
    const auto lines = parse_mounts(
        "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime shared:7 master:1 - ext3 /dev/ro\\134ot rw,errors=continue\n"
        "35 1 0:5 / / rw,relatime unbindable - tmpfs none rw,size=1024k,mode=755\n"
        "not a line\n");
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[0].point, "/");
    EXPECT_EQ(lines[0].super_options, "rw,size=1024k,mode=755");
    EXPECT_EQ(lines[0].peers, 0);
    EXPECT_FALSE(lines[0].receives);
    EXPECT_FALSE(lines[0].bindable);
    const auto& second = lines[1];
    EXPECT_EQ(second.id, 36);
    EXPECT_EQ(second.parent, 35);
    EXPECT_EQ(second.device, "98:0");
    EXPECT_EQ(second.root, "/mnt1");
    EXPECT_EQ(second.point, "/mnt 2");
    EXPECT_EQ(second.options, "rw,noatime");
    EXPECT_EQ(second.type, "ext3");
    EXPECT_EQ(second.source, "/dev/ro\\ot");
    EXPECT_EQ(second.peers, 7);
    EXPECT_TRUE(second.receives);
    EXPECT_TRUE(second.bindable);
}

// The kernel lists them in the order of their numbers, which a mount that was moved doesn't keep.
TEST(MountLines, WhatIsMountedOnGoesFirst) {
    const auto lines = parse_mounts(
        "7 9 0:3 / /a/b rw - tmpfs c rw\n"
        "8 5 0:1 / / rw - tmpfs a rw\n"
        "9 8 0:2 / /a rw - tmpfs b rw\n");
    ASSERT_EQ(lines.size(), 3U);
    EXPECT_EQ(lines[0].point, "/");
    EXPECT_EQ(lines[1].point, "/a");
    EXPECT_EQ(lines[2].point, "/a/b");
}

TEST(MountLines, ACircleIsLeftOut) {
    EXPECT_TRUE(parse_mounts("1 2 0:1 / / rw - tmpfs a rw\n2 1 0:2 / /a rw - tmpfs b rw\n").empty());
    EXPECT_TRUE(parse_mounts("").empty());
}

TEST(MountPaths, AreBelowAndJoined) {
    EXPECT_TRUE(is_below("/a", "/a"));
    EXPECT_TRUE(is_below("/a/b", "/a"));
    EXPECT_FALSE(is_below("/ab", "/a"));
    EXPECT_TRUE(is_below("/ab", "/"));
    EXPECT_EQ(joined("/", "/a"), "/a");
    EXPECT_EQ(joined("", "/"), "/");
    EXPECT_EQ(joined("/new", "/"), "/new");
    EXPECT_EQ(joined("/new", "/a/b"), "/new/a/b");
    EXPECT_EQ(joined("/new", "a"), "/new/a");
}

}  // namespace
}  // namespace cairn::schema
