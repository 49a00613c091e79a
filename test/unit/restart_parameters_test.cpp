// What the restorer is given: fields and what they point to, as they will lie in the process.
#include <gtest/gtest.h>

#include <cstring>

#include "restart/rebuild/parameters.h"

using namespace cairn;
using namespace cairn::restart;

// A field may be given the address of what is added in the same expression.
TEST(RestartParameters, FieldsStayWhereTheyAreWhileThingsAreAdded) {
    constexpr ProgramAddress base(0x10000);
    ParameterBlock block(base);
    auto& params = block.params();
    const std::string text = "a working folder";
    for (int times = 0; times < 1000; ++times) params.own_cwd = block.add(text).value();
    const auto bytes = block.bytes();
    ASSERT_EQ(bytes.size(), block.size());
    restorer::Params laid_out = {};
    std::memcpy(&laid_out, bytes.data(), sizeof laid_out);
    ASSERT_LT(laid_out.own_cwd - base.value(), bytes.size() - text.size());
    EXPECT_EQ(reinterpret_cast<const char*>(bytes.data()) + (laid_out.own_cwd - base.value()), text);
    EXPECT_EQ(laid_out.own_cwd % 16, 0U);
}
