#include "drivers/faults/fault_script.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "stack/wire/opcodes.h"

namespace roci {
namespace {

FaultScript parsed(std::string_view text) {
  FaultScript script;
  std::string error;
  EXPECT_TRUE(parse_fault_script(text, "test", &script, &error)) << error;
  return script;
}

FaultRow row(std::string_view text) {
  const FaultScript script = parsed(text);
  EXPECT_EQ(script.rows.size(), 1u);
  return script.rows.empty() ? FaultRow{} : script.rows[0];
}

std::string wrong(std::string_view text) {
  FaultScript script{.seed = 99};
  std::string error;
  EXPECT_FALSE(parse_fault_script(text, "faults.txt", &script, &error));
  EXPECT_EQ(script.seed, 99u) << "a script that is refused must change nothing";
  return error;
}

TEST(FaultScript, parse__comments_blank_lines_and_line_numbers) {
  const FaultScript script = parsed("# nothing\n\n  drop opcode=any  # the rest\r\n\tseed=7\ncorrupt");
  ASSERT_EQ(script.rows.size(), 2u);
  EXPECT_EQ(script.rows[0].line, 3u);
  EXPECT_EQ(script.rows[1].line, 5u);
  EXPECT_EQ(script.seed, 7u);
}

TEST(FaultScript, parse__every_action) {
  EXPECT_EQ(row("drop").action, FaultAction::kDrop);
  EXPECT_EQ(row("duplicate").copies, 1u);
  EXPECT_EQ(row("duplicate=3").copies, 3u);
  EXPECT_EQ(row("delay=1.5us").delay_least, nanoseconds(1500));
  EXPECT_EQ(row("delay=1.5us").delay_most, nanoseconds(1500));
  EXPECT_EQ(row("delay=10ns..2ms").delay_least, nanoseconds(10));
  EXPECT_EQ(row("delay=10ns..2ms").delay_most, milliseconds(2));
  EXPECT_EQ(row("delay=1s").delay_most, seconds(1));
  EXPECT_EQ(row("reorder=4").reorder_by, 4u);
  EXPECT_EQ(row("corrupt").bit, FaultRow::kRandomBit);
  EXPECT_EQ(row("corrupt=random").bit, FaultRow::kRandomBit);
  EXPECT_EQ(row("corrupt=112").bit, 112u);
  EXPECT_EQ(row("mark-ce").action, FaultAction::kMarkCe);
}

TEST(FaultScript, parse__every_match) {
  const FaultRow all = row("drop opcode=RC_WRITE_MIDDLE qp=0x2a psn=3..9 dir=rx nth=2 every=5 rate=25% times=4");
  EXPECT_FALSE(all.any_opcode);
  EXPECT_EQ(all.opcode.opcodes.count(), 1u);
  EXPECT_TRUE(all.opcode.opcodes.test(static_cast<std::size_t>(Opcode::kRcWriteMiddle)));
  EXPECT_EQ(all.qp, Qpn{42});
  EXPECT_EQ(all.psn_first, 3u);
  EXPECT_EQ(all.psn_last, 9u);
  EXPECT_FALSE(all.tx);
  EXPECT_TRUE(all.rx);
  EXPECT_EQ(all.nth, 2u);
  EXPECT_EQ(all.every, 5u);
  EXPECT_EQ(all.rate, 0.25);
  EXPECT_EQ(all.times, 4u);
}

TEST(FaultScript, parse__nth_alone_is_once_but_goes_on_with_every_rate_or_times) {
  EXPECT_EQ(row("drop nth=3").times, 1u);
  EXPECT_EQ(row("drop nth=3 times=2").times, 2u);
  EXPECT_EQ(row("drop times=2 nth=3").times, 2u);
  EXPECT_EQ(row("drop nth=3 every=2").times, UINT64_MAX);
  EXPECT_EQ(row("drop rate=1 nth=3").times, UINT64_MAX);
  EXPECT_EQ(row("drop").times, UINT64_MAX);
}

TEST(FaultScript, parse__groups_hold_the_opcodes_of_their_name) {
  const auto holds = [](std::string_view name, Opcode opcode) {
    return row("drop opcode=" + std::string(name)).opcode.opcodes.test(static_cast<std::size_t>(opcode));
  };
  EXPECT_TRUE(holds("any", Opcode::kUdSendOnly));
  EXPECT_TRUE(holds("request", Opcode::kRcReadRequest));
  EXPECT_FALSE(holds("request", Opcode::kRcReadResponseOnly));
  EXPECT_TRUE(holds("response", Opcode::kRcAtomicAcknowledge));
  EXPECT_TRUE(holds("send", Opcode::kRcSendLastInv));
  EXPECT_FALSE(holds("send", Opcode::kRcWriteOnlyImm));
  EXPECT_TRUE(holds("write", Opcode::kRcWriteOnlyImm));
  EXPECT_TRUE(holds("read", Opcode::kRcReadRequest));
  EXPECT_FALSE(holds("read", Opcode::kRcReadResponseOnly));
  EXPECT_TRUE(holds("read-response", Opcode::kRcReadResponseOnly));
  EXPECT_TRUE(holds("atomic", Opcode::kRcFetchAdd));
  EXPECT_FALSE(holds("atomic", Opcode::kRcAtomicAcknowledge));
  EXPECT_TRUE(holds("atomic-response", Opcode::kRcAtomicAcknowledge));
  EXPECT_TRUE(holds("cnp", Opcode::kCnp));
  EXPECT_TRUE(holds("RC_SEND_ONLY,RC_ACK", Opcode::kRcAcknowledge));
  EXPECT_TRUE(row("drop opcode=not-roce").opcode.not_roce);
}

TEST(FaultScript, parse__kinds_of_acknowledge_are_told_apart) {
  const OpcodeMatch ack = row("drop opcode=ack").opcode;
  EXPECT_TRUE(ack.acks && !ack.naks && !ack.rnr_naks);
  const OpcodeMatch nak = row("drop opcode=nak").opcode;
  EXPECT_TRUE(!nak.acks && nak.naks && !nak.rnr_naks);
  const OpcodeMatch rnr = row("drop opcode=rnr-nak").opcode;
  EXPECT_TRUE(!rnr.acks && !rnr.naks && rnr.rnr_naks);
  const OpcodeMatch any = row("drop opcode=RC_ACK").opcode;
  EXPECT_TRUE(any.acks && any.naks && any.rnr_naks);
}

TEST(FaultScript, parse__errors_name_file_line_and_nearest_valid_name) {
  EXPECT_EQ(wrong("drop\ndorp"), "faults.txt:2: no action is called \"dorp\", nearest: \"drop\"");
  EXPECT_EQ(wrong("drop opcod=any"), "faults.txt:1: no match is called \"opcod\", nearest: \"opcode\"");
  EXPECT_EQ(wrong("drop opcode=RC_WRIET_MIDDLE"),
            "faults.txt:1: no opcode and no group is called \"RC_WRIET_MIDDLE\", nearest: \"RC_WRITE_MIDDLE\"");
  EXPECT_EQ(wrong("sead=1"), "faults.txt:1: no action is called \"sead\", nearest: \"seed\"");
}

TEST(FaultScript, parse__bad_values_are_refused) {
  for (const char* text :
       {"drop=1",         "duplicate=0",  "duplicate=65",  "delay",          "delay=5",          "delay=5parsecs",
        "delay=2us..1us", "delay=-1us",   "delay=2000s",   "reorder",        "reorder=0",        "corrupt=x",
        "corrupt=65536",  "mark-ce=1",    "drop opcode",   "drop opcode=",   "drop opcode=any,", "drop qp=0x1000000",
        "drop qp=1x",     "drop psn=-1",  "drop psn=9..3", "drop psn=1..",   "drop dir=up",      "drop nth=0",
        "drop every=0",   "drop times=0", "drop rate=1.1", "drop rate=101%", "drop rate=nan",    "drop rate=",
        "seed",           "seed=x",       "seed=1 drop",   "drop any"})
    EXPECT_TRUE(wrong(text).starts_with("faults.txt:1: ")) << text;
}

TEST(FaultScript, read__file_that_is_not_there_is_named) {
  FaultScript script;
  std::string error;
  EXPECT_FALSE(read_fault_script("/nowhere/faults.txt", &script, &error));
  EXPECT_EQ(error, "/nowhere/faults.txt: cannot be opened");
}

TEST(FaultScript, read__file_gives_what_its_text_gives) {
  std::string path = testing::TempDir() + "fault-script-XXXXXX";
  const int fd = mkstemp(path.data());
  ASSERT_GE(fd, 0);
  std::FILE* file = fdopen(fd, "w");
  std::fputs("seed=3\ndrop opcode=ack nth=2\n", file);
  std::fclose(file);
  FaultScript script;
  std::string error;
  EXPECT_TRUE(read_fault_script(path, &script, &error)) << error;
  std::remove(path.c_str());
  EXPECT_EQ(script.seed, 3u);
  EXPECT_EQ(script.rows.size(), 1u);
}

TEST(FaultScript, action_names__are_those_of_the_file) {
  EXPECT_EQ(fault_action_name(FaultAction::kDrop), "drop");
  EXPECT_EQ(fault_action_name(FaultAction::kMarkCe), "mark-ce");
}

}  // namespace
}  // namespace roci
