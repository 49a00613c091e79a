// Traces in others' forms: OTF2 there and back, and one that OTF2's own functions wrote.
#include <gtest/gtest.h>

#include <filesystem>

#include "causality/computation.h"
#include "causality/json_fields.h"
#include "causality/lint/lint.h"
#include "causality/open_trace.h"
#include "causality/otf2/otf2.h"
#include "test/causality/trace_text.h"
#include "test/unit/folder.h"
#ifdef CAIRN_OTF2
#include <otf2/otf2.h>
#endif

namespace {

using namespace cairn;
using namespace cairn::causality;
using namespace cairn::test::traces;
using cairn::test::Folder;
using cairn::test::Random;

// Random lines, right and wrong, are read alike with and without the library.
TEST(CausalityJson, SimpleLinesAreReadAsTheLibraryReadsThem) {
    const char* parts[] = {"{",
                           "}",
                           "\"p\"",
                           "\"to\"",
                           ":",
                           ",",
                           "0",
                           "7",
                           "-3",
                           "01",
                           "-0",
                           "1.5",
                           "1e3",
                           "true",
                           "false",
                           "null",
                           "\"a\"",
                           "\"a\\u0041\"",
                           "\"\xc3\xa9\"",
                           "\"\xff\"",
                           " ",
                           "\t",
                           "18446744073709551615",
                           "18446744073709551616",
                           "-9223372036854775808",
                           "-9223372036854775809",
                           "[1,2]",
                           "\"\x01\"",
                           "x",
                           "tru"};
    std::uint32_t simple = 0;
    for (const std::uint64_t seed : test::seeds()) {
        Random random(seed);
        for (std::uint32_t i = 0; i < test::cases(20000); ++i) {
            std::string text;
            if (random.chance(70)) {
                text = "{";
                const std::uint32_t members = random.below(4);
                for (std::uint32_t k = 0; k < members; ++k)
                    text +=
                        fmt::format("{}\"{}\":{}", k > 0 ? "," : "", static_cast<char>('a' + random.below(6)),
                                    parts[6 + random.below(std::size(parts) - 6)]);
                text += random.chance(90) ? "}" : "} x";
            } else {
                for (std::uint32_t k = random.below(9); k > 0; --k)
                    text += parts[random.below(std::size(parts))];
            }
            JsonFields quick, any;
            if (!quick.read_simple(text)) continue;
            ++simple;
            ASSERT_TRUE(any.read_any(text)) << text;
            ASSERT_EQ(quick.all().size(), any.all().size()) << text;
            for (const JsonField& each : quick.all()) {
                const JsonField* other = find_field(any.all(), each.key);
                ASSERT_TRUE(other != nullptr && other->what == each.what && other->text == each.text &&
                            other->whole == each.whole && other->negative == each.negative)
                    << text << " at " << each.key;
            }
        }
    }
    EXPECT_GT(simple, 100U);
}

#ifdef CAIRN_OTF2

TEST(CausalityOtf2, GivesBackWhatWasWritten) {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        const Folder folder;
        MemoryTrace trace = cairn::test::traces::random_trace(seed);
        const std::string expected = text_of(trace);
        trace.rewind();
        trace.set_ended(0, seed % 3 != 0);
        const auto written = write_otf2(trace, folder / "o");
        ASSERT_TRUE(written) << written.error().what;
        EXPECT_TRUE(is_otf2(folder / "o"));
        const std::string paths[] = {folder / "o/traces.otf2"};
        const auto read = open_trace(paths);
        ASSERT_TRUE(read) << read.error().what;
        EXPECT_EQ((*read)->ended(0), seed % 3 != 0);
        EXPECT_EQ(text_of(**read), expected) << "seed " << seed;
    }
    const Folder folder;
    MemoryTrace empty(1);
    std::filesystem::create_directory(folder / "there");
    EXPECT_NE(write_otf2(empty, folder / "there").error().what.find("is there already"), std::string::npos);
    test::traces::write_file(folder / "bad.otf2", "nothing");
    const auto bad = read_otf2(folder / "bad.otf2");
    ASSERT_FALSE(bad);
    EXPECT_EQ(bad.error().code, ExitCode::damaged);
}

// Two processes in a user's function: a message, a request, a Bcast on a communicator that turns the ranks
// round.
void write_by_hand(const std::string& folder) {
    OTF2_Archive* archive = OTF2_Archive_Open(folder.c_str(), "traces", OTF2_FILEMODE_WRITE, 1U << 20,
                                              4U << 20, OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
    ASSERT_NE(archive, nullptr);
    static const OTF2_FlushCallbacks flush = {
        [](void*, OTF2_FileType, OTF2_LocationRef, void*, bool) -> OTF2_FlushType { return OTF2_FLUSH; },
        nullptr};
    OTF2_Archive_SetFlushCallbacks(archive, &flush, nullptr);
    OTF2_Archive_SetSerialCollectiveCallbacks(archive);
    OTF2_Archive_OpenEvtFiles(archive);
    for (std::uint64_t rank = 0; rank < 2; ++rank) {
        // Locations have numbers of their own.
        OTF2_EvtWriter* out = OTF2_Archive_GetEvtWriter(archive, 10 + rank);
        OTF2_EvtWriter_Enter(out, nullptr, 1000 + rank, 0);
        OTF2_EvtWriter_Enter(out, nullptr, 1010 + rank, 1);
        if (rank == 0)
            OTF2_EvtWriter_MpiIsend(out, nullptr, 1011, 1, 0, 5, 80, 77);
        else
            OTF2_EvtWriter_MpiRecv(out, nullptr, 1030, 0, 0, 5, 80);
        OTF2_EvtWriter_Leave(out, nullptr, 1040, 1);
        if (rank == 0) OTF2_EvtWriter_MpiIsendComplete(out, nullptr, 1050, 77);
        OTF2_EvtWriter_MpiCollectiveBegin(out, nullptr, 1060);
        OTF2_EvtWriter_MpiCollectiveEnd(out, nullptr, 1070 + rank, OTF2_COLLECTIVE_OP_BCAST, 1, 0, 8, 8);
        OTF2_EvtWriter_Leave(out, nullptr, 1080, 0);
        OTF2_Archive_CloseEvtWriter(archive, out);
    }
    OTF2_Archive_CloseEvtFiles(archive);
    OTF2_Archive_OpenDefFiles(archive);
    for (std::uint64_t rank = 0; rank < 2; ++rank)
        OTF2_Archive_CloseDefWriter(archive, OTF2_Archive_GetDefWriter(archive, 10 + rank));
    OTF2_Archive_CloseDefFiles(archive);
    OTF2_GlobalDefWriter* out = OTF2_Archive_GetGlobalDefWriter(archive);
    const char* strings[] = {"", "node", "relax", "MPI_Isend", "solver.c", "world"};
    for (std::uint32_t i = 0; i < std::size(strings); ++i)
        OTF2_GlobalDefWriter_WriteString(out, i, strings[i]);
    OTF2_GlobalDefWriter_WriteClockProperties(out, 1'000'000'000, 1000, 100, OTF2_UNDEFINED_TIMESTAMP);
    OTF2_GlobalDefWriter_WriteSystemTreeNode(out, 0, 1, 1, OTF2_UNDEFINED_SYSTEM_TREE_NODE);
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        OTF2_GlobalDefWriter_WriteLocationGroup(out, rank, 1, OTF2_LOCATION_GROUP_TYPE_PROCESS, 0,
                                                OTF2_UNDEFINED_LOCATION_GROUP);
        OTF2_GlobalDefWriter_WriteLocation(out, 10 + rank, 1, OTF2_LOCATION_TYPE_CPU_THREAD, 9, rank);
    }
    OTF2_GlobalDefWriter_WriteRegion(out, 0, 2, 2, 0, OTF2_REGION_ROLE_FUNCTION, OTF2_PARADIGM_COMPILER,
                                     OTF2_REGION_FLAG_NONE, 4, 88, 99);
    OTF2_GlobalDefWriter_WriteRegion(out, 1, 3, 3, 0, OTF2_REGION_ROLE_POINT2POINT, OTF2_PARADIGM_MPI,
                                     OTF2_REGION_FLAG_NONE, 0, 0, 0);
    const std::uint64_t locations[] = {10, 11}, ranks[] = {0, 1}, round[] = {1, 0};
    OTF2_GlobalDefWriter_WriteGroup(out, 0, 0, OTF2_GROUP_TYPE_COMM_LOCATIONS, OTF2_PARADIGM_MPI,
                                    OTF2_GROUP_FLAG_NONE, 2, locations);
    OTF2_GlobalDefWriter_WriteGroup(out, 1, 0, OTF2_GROUP_TYPE_COMM_GROUP, OTF2_PARADIGM_MPI,
                                    OTF2_GROUP_FLAG_NONE, 2, ranks);
    OTF2_GlobalDefWriter_WriteGroup(out, 2, 0, OTF2_GROUP_TYPE_COMM_GROUP, OTF2_PARADIGM_MPI,
                                    OTF2_GROUP_FLAG_NONE, 2, round);
    OTF2_GlobalDefWriter_WriteComm(out, 0, 5, 1, OTF2_UNDEFINED_COMM, OTF2_COMM_FLAG_NONE);
    OTF2_GlobalDefWriter_WriteComm(out, 1, 5, 2, 0, OTF2_COMM_FLAG_NONE);
    OTF2_Archive_CloseGlobalDefWriter(archive, out);
    ASSERT_EQ(OTF2_Archive_Close(archive), OTF2_SUCCESS);
}

TEST(CausalityOtf2, ReadsWhatOthersWrote) {
    const Folder folder;
    write_by_hand(folder / "o");
    const std::string paths[] = {folder / "o"};
    const auto read = open_trace(paths);
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_EQ(text_of(**read),
              R"({"communicator":2,"members":[0,1]}
{"p":0,"e":"send","to":1,"tag":5,"request":1,"time":11,"took":29,"bytes":80,"call":"MPI_Isend","at":"relax@solver.c:88"}
{"p":0,"e":"complete","request":1,"time":50,"at":"relax@solver.c:88"}
{"p":0,"e":"collective","shape":"from_root","root":1,"communicator":2,"time":70,"at":"relax@solver.c:88"}
{"p":1,"e":"receive","from":0,"tag":5,"time":30,"took":19,"call":"MPI_Isend","at":"relax@solver.c:88"}
{"p":1,"e":"collective","shape":"from_root","root":1,"communicator":2,"time":71,"at":"relax@solver.c:88"}
)");
    const auto again = open_trace(paths);
    ASSERT_TRUE(again);
    const auto found = lint(**again);
    ASSERT_TRUE(found) << found.error().what;
    EXPECT_TRUE(found->findings.empty());
    EXPECT_EQ(found->unknown.size(), 1U);
}

#else

TEST(CausalityOtf2, IsRefusedWhereItIsNotBuilt) {
    MemoryTrace trace(1);
    EXPECT_NE(write_otf2(trace, "o").error().what.find("libotf2-trace-dev"), std::string::npos);
}

#endif

}  // namespace
