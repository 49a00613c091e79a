// How many descriptors a restart needs, and whether there is room for them.
#include "resources/schema/descriptor_room.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

struct Group {
    std::vector<schema::Process> processes;
    schema::Objects objects;

    std::int64_t object() {
        auto& fresh = objects.objects.emplace_back();
        fresh.id = static_cast<std::int64_t>(objects.objects.size()) - 1;
        fresh.path = "/file";
        return fresh.id;
    }
    schema::Process& process() {
        auto& fresh = processes.emplace_back();
        fresh.pid = ProgramId(100 + static_cast<std::int32_t>(processes.size()));
        fresh.cwd = fresh.root = fresh.executable = object();
        return fresh;
    }
    // A descriptor of an object of its own for each number.
    void fill(schema::Process& process, int from, int to) {
        for (int fd = from; fd < to; ++fd) process.descriptors.push_back({ProgramFd(fd), object(), false});
    }
    [[nodiscard]] Result<DescriptorRoom> room(std::uint64_t limit) const {
        return find_descriptor_room(processes, objects, limit);
    }
};

TEST(DescriptorRoom, AllFitAboveTheHighest) {
    Group group;
    group.fill(group.process(), 0, 1000);
    const auto room = group.room(4096);
    ASSERT_TRUE(room) << room.error().what;
    EXPECT_FALSE(room->narrow());
    EXPECT_EQ(room->floor, 1000);
    Group few;
    few.fill(few.process(), 0, 3);
    EXPECT_EQ(few.room(1024)->floor, 256);
}

TEST(DescriptorRoom, NarrowRoomIsWhereFewAre) {
    Group group;
    group.fill(group.process(), 0, 2500);
    group.processes.front().descriptors.push_back({ProgramFd(4095), group.object(), false});
    group.fill(group.process(), 0, 2000);
    const auto room = group.room(4096);
    ASSERT_TRUE(room) << room.error().what;
    ASSERT_TRUE(room->narrow());
    EXPECT_GE(room->floor, 2500);
    EXPECT_LE(room->floor + room->width, 4095);
    EXPECT_TRUE(room->is_own(ProgramFd(room->floor)));
    EXPECT_FALSE(room->is_own(ProgramFd(room->floor + room->width)));
}

TEST(DescriptorRoom, WhatOnlyTheProcessOpensIsLeftAlone) {
    Group group;
    auto& process = group.process();
    for (int fd = 0; fd < 4096; ++fd) {
        process.descriptors.push_back({ProgramFd(fd), group.object(), false});
        if (fd >= 700) group.objects.objects.back().path = "/proc/self/status";
    }
    process.descriptors[1].object = process.descriptors[0].object;
    const auto room = group.room(4096);
    ASSERT_TRUE(room) << room.error().what;
    EXPECT_GE(room->floor, 256);
    EXPECT_LE(room->floor + room->width, 700);
}

TEST(DescriptorRoom, EveryNumberTaken) {
    Group group;
    group.fill(group.process(), 0, 4096);
    const auto none = group.room(4096);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ExitCode::refused);
    EXPECT_NE(none.error().what.find("can bring back 4095"), std::string::npos) << none.error().what;
    auto& process = group.processes.front();
    process.descriptors[2].object = process.descriptors[1].object;
    ASSERT_TRUE(group.room(4096)) << group.room(4096).error().what;
    EXPECT_EQ(*last_descriptor(process, 4096), ProgramFd(2));
    EXPECT_EQ(*last_descriptor(process, 8192), ProgramFd());
    process.descriptors.pop_back();
    EXPECT_EQ(*last_descriptor(process, 4096), ProgramFd());
}

TEST(DescriptorRoom, TooMuchIsRefused) {
    Group high;
    high.process().descriptors.push_back({ProgramFd(5000), high.object(), false});
    const auto above = high.room(4096);
    ASSERT_FALSE(above);
    EXPECT_NE(above.error().what.find("has descriptor 5000"), std::string::npos) << above.error().what;
    Group sockets;
    sockets.fill(sockets.process(), 0, 3000);
    sockets.fill(sockets.process(), 0, 3000);
    ASSERT_TRUE(sockets.room(4096));
    for (auto& object : sockets.objects.objects) {
        object.what = schema::UnixSocket{};
    }
    const auto many = sockets.room(4096);
    ASSERT_FALSE(many);
    EXPECT_NE(many.error().what.find("sockets"), std::string::npos) << many.error().what;
}

}  // namespace
}  // namespace cairn
