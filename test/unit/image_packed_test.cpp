// MessagePack without a document: every format of a value, and what is none.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/schema/packed.h"

namespace cairn {
namespace {

using nlohmann::json;
using schema::Packed;
using schema::Packer;
using PackedBytes = std::vector<std::uint8_t>;

// As a document, by another library's rules of what a value is.
json document_of(const Packed& value) {
    switch (value.kind()) {
        case Packed::Kind::null:
            return nullptr;
        case Packed::Kind::boolean:
            return value.as_boolean();
        case Packed::Kind::integer:
            return value.is_negative() ? json(value.as_signed()) : json(value.as_unsigned());
        case Packed::Kind::number:
            return value.as_number();
        case Packed::Kind::string:
            return std::string(value.as_string());
        case Packed::Kind::binary:
            return json::binary({value.as_binary().begin(), value.as_binary().end()});
        case Packed::Kind::array: {
            json all = json::array();
            for (const auto& each : value.elements()) all.push_back(document_of(each));
            return all;
        }
        case Packed::Kind::map: {
            json all = json::object();
            for (const auto& [key, each] : value.members()) all[std::string(key)] = document_of(each);
            return all;
        }
    }
    return {};
}

std::vector<std::int64_t> edges() {
    std::vector<std::int64_t> all;
    for (const std::int64_t edge :
         {0LL, 0x20LL, 0x80LL, 0x100LL, 0x8000LL, 0x10000LL, 0x80000000LL, 0x100000000LL})
        for (const std::int64_t beside : {-1, 0, 1})
            for (const std::int64_t sign : {-1, 1}) all.push_back(sign * (edge + beside));
    all.push_back(std::numeric_limits<std::int64_t>::min());
    all.push_back(std::numeric_limits<std::int64_t>::max());
    return all;
}

TEST(ImagePacked, IntegersOfEverySizeAreReadAsAnotherLibraryReadsThem) {
    for (const auto value : edges()) {
        Packer packer;
        packer.integer(value);
        const auto bytes = packer.take();
        EXPECT_EQ(json::from_msgpack(bytes), json(value));
        EXPECT_EQ(bytes, json::to_msgpack(json(value)));
        const auto packed = Packed::of(bytes, "it");
        ASSERT_TRUE(packed) << value;
        EXPECT_EQ(packed->as_signed(), value);
        EXPECT_EQ(packed->is_negative(), value < 0);
    }
    // The formats of signed numbers for positive ones, which nobody has to use and anybody may.
    for (const PackedBytes& bytes :
         {PackedBytes{0xd0, 5}, PackedBytes{0xd1, 0, 5}, PackedBytes{0xd2, 0, 0, 0, 5},
          PackedBytes{0xd3, 0, 0, 0, 0, 0, 0, 0, 5}}) {
        const auto packed = Packed::of(bytes, "it");
        ASSERT_TRUE(packed);
        EXPECT_EQ(packed->as_unsigned(), 5U);
        EXPECT_FALSE(packed->is_negative());
    }
}

TEST(ImagePacked, TextsBytesArraysAndMapsOfEverySizeAreReadAsAnotherLibraryReadsThem) {
    for (const std::size_t size : {0U, 1U, 15U, 16U, 31U, 32U, 255U, 256U, 65'535U, 65'536U}) {
        json array = json::array(), map = json::object();
        Packer packer;
        packer.array(4);
        packer.string(std::string(size, 'x'));
        packer.binary(PackedBytes(size, 7));
        packer.array(size);
        for (std::size_t i = 0; i < size; ++i) {
            packer.boolean(i % 2 == 0);
            array.push_back(i % 2 == 0);
        }
        packer.map(size);
        for (std::size_t i = 0; i < size; ++i) {
            packer.string(std::to_string(i));
            packer.number(0.5);
            map[std::to_string(i)] = 0.5;
        }
        const json whole = {std::string(size, 'x'), json::binary(PackedBytes(size, 7)), array, map};
        const auto bytes = packer.take();
        EXPECT_EQ(json::from_msgpack(bytes), whole);
        for (const auto& written : {bytes, json::to_msgpack(whole)}) {
            const auto packed = Packed::of(written, "it");
            ASSERT_TRUE(packed) << size << packed.error().what;
            EXPECT_EQ(document_of(*packed), whole);
        }
    }
    const auto small = Packed::of(PackedBytes{0xca, 0x3f, 0, 0, 0}, "it");
    ASSERT_TRUE(small);
    EXPECT_EQ(small->as_number(), 0.5);
}

TEST(ImagePacked, WhatIsNoneIsRefused) {
    const auto refused = [](const PackedBytes& bytes, const char* part) {
        const auto packed = Packed::of(bytes, "it");
        ASSERT_FALSE(packed) << part;
        EXPECT_EQ(packed.error().code, ExitCode::damaged);
        EXPECT_NE(packed.error().what.find(part), std::string::npos) << packed.error().what;
    };
    refused({}, "it is not MessagePack");
    refused({0xc1}, "is not MessagePack");
    refused({0xd4, 1, 2}, "is not MessagePack");                 // an extension
    refused({0xc0, 0xc0}, "wrong at byte 2");                    // something behind it
    refused({0x81, 1, 1}, "wrong at byte 2");                    // a key that is no string
    refused({0xdf, 0xff, 0xff, 0xff, 0xff}, "not MessagePack");  // no such map is there
    refused({0xdb, 0xff, 0xff, 0xff, 0xff, 'x'}, "wrong at byte 1");
    PackedBytes nested(16, 0x91);
    nested.push_back(0xc0);
    EXPECT_TRUE(Packed::of(nested, "it"));
    nested.insert(nested.begin(), 0x91);
    refused(nested, "it is nested too deeply");
    Packer packer;
    packer.map(2);
    packer.string("a");
    packer.binary(PackedBytes(300, 1));
    packer.string("b");
    packer.array(2);
    packer.integer(std::int64_t{-70'000});
    packer.number(1.5);
    const auto whole = packer.take();
    EXPECT_TRUE(Packed::of(whole, "it"));
    for (std::size_t size = 0; size < whole.size(); ++size)
        refused({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}, "not MessagePack");
}

}  // namespace
}  // namespace cairn
