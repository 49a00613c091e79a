// Ids as a word of a command line.
#include "common/id_list.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

std::set<KernelId> id_set(std::initializer_list<int> numbers) {
    std::set<KernelId> ids;
    for (const int number : numbers) ids.insert(KernelId(number));
    return ids;
}

TEST(IdList, neighboursAreARange) {
    EXPECT_EQ(id_list({}), "");
    EXPECT_EQ(id_list(id_set({7})), "7");
    EXPECT_EQ(id_list(id_set({9, 7, 8, 12, 20, 21})), "7-9,12,20-21");
}

TEST(IdList, isReadAsItWasWritten) {
    for (const auto& ids : {id_set({}), id_set({1}), id_set({1, 3, 5}), id_set({4194303, 4194304, 2, 3, 4})})
        EXPECT_EQ(read_id_list(id_list(ids)), ids);
}

TEST(IdList, whatIsNoListIsRefused) {
    for (const char* text :
         {",", "1,", ",1", "0", "-1", "1-", "5-4", "1 ", "x", "1-2-3", "4194305", "99999999999"})
        EXPECT_FALSE(read_id_list(text)) << text;
}

}  // namespace
}  // namespace cairn
