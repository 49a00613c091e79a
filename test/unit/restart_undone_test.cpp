// What a restart that is given up undoes, and in which order.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "restart/undone.h"

namespace cairn::restart {
namespace {

struct UndoableThing {
    std::string* log;
    char name;
    void undo() { *log += name; }
};
using UndoneThing = Undone<UndoableThing, &UndoableThing::undo>;

struct TwoUndone {
    UndoneThing first, second;
};

TEST(RestartUndone, laterMembersAreUndoneFirst) {
    std::string log;
    { const TwoUndone two{UndoneThing({&log, 'a'}), UndoneThing({&log, 'b'})}; }
    EXPECT_EQ(log, "ba");
}

TEST(RestartUndone, whoeverHasItLastUndoesIt) {
    std::string log;
    {
        UndoneThing made({&log, 'a'});
        const UndoableThing* const there = &*made;
        const UndoneThing moved = std::move(made);
        EXPECT_EQ(&*moved, there);
        EXPECT_EQ(log, "");
    }
    EXPECT_EQ(log, "a");
}

TEST(RestartUndone, whatIsKeptIsNotUndone) {
    std::string log;
    {
        TwoUndone two{UndoneThing({&log, 'a'}), UndoneThing({&log, 'b'})};
        two.first.keep();
    }
    EXPECT_EQ(log, "b");
}

}  // namespace
}  // namespace cairn::restart
