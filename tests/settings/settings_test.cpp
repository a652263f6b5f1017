#include "apps/ripieno/settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ripieno/core/file.h"
#include "ripieno/core/guessed_words.h"
#include "tests/support/temporary_folder.h"

namespace ripieno {
namespace {

using Numbers = std::vector<double>;

/// What the call throws, which must be an Error(usage) of one line.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "nothing was refused";
}

std::string refused_text(const std::string& toml) {
  return refusal([&] { program::Settings().load_text(toml, "r.toml"); });
}

std::string refused_set(const std::string& assignment) {
  return refusal([&] { program::Settings().set(assignment); });
}

TEST(Settings, TableIsSound) {
  std::set<std::string> keys;
  for (const program::Setting& one : program::all_settings()) {
    EXPECT_TRUE(keys.insert(one.key).second) << one.key;
    EXPECT_FALSE(one.help.empty()) << one.key;
    // A default that its own range or list would refuse could not be reloaded from config.toml.
    program::Settings settings;
    EXPECT_NO_THROW(settings.assign(one.key, one.standard, {"test"})) << one.key;
    EXPECT_EQ(settings.origin(one.key), "test");
  }
}

TEST(Settings, DefaultsAndMembers) {
  const program::Settings settings;
  EXPECT_EQ(settings->model, "mnist-cnn");
  EXPECT_EQ(settings->workers, 2);
  EXPECT_EQ(settings->simulated.window_bytes, 256u << 10);
  EXPECT_EQ(settings->simulated.link.latency, std::chrono::microseconds(50));
  EXPECT_EQ(settings->plan.federated.statistics, strategy::Statistics::mean);
  EXPECT_EQ(settings->augmentation.pixels, data::PixelScale::standard);
  EXPECT_EQ(settings->plan.optimiser.epsilon, 1e-8);
  EXPECT_EQ(settings->compute.virtual_slow, Numbers());
  EXPECT_FALSE(settings.is_set("workers"));
  EXPECT_EQ(settings.origin("workers"), "default");
  for (const char* wrong : {"worker", "data"}) {
    EXPECT_THROW(settings.value(wrong), Error) << wrong;
  }
}

TEST(Settings, LoadsAndRemembersOrigins) {
  program::Settings settings;
  settings.load_text(R"(title = "A demonstration"
workers = 4
"exchange.codec" = "fp16"   # a quoted dotted key
optimiser.momentum = 0.9

[learning_rate]
base = 1                   # a whole number is a number
step_epochs = [10, 20.5]
[data]
)",
                     "recipes/demo.toml");
  EXPECT_EQ(settings->workers, 4);
  EXPECT_EQ(settings.origin("workers"), "recipes/demo.toml:2");
  EXPECT_EQ(settings->plan.exchange.codec.name, "fp16");
  EXPECT_EQ(settings.origin("exchange.codec"), "recipes/demo.toml:3");
  EXPECT_EQ(settings->plan.optimiser.momentum, 0.9);
  EXPECT_EQ(settings->plan.learning_rate.base, 1.0);
  EXPECT_EQ(settings->plan.learning_rate.step_epochs, (Numbers{10, 20.5}));
  EXPECT_EQ(settings.origin("learning_rate.step_epochs"), "recipes/demo.toml:8");
  EXPECT_FALSE(settings.is_set("seed"));
}

TEST(Settings, SetParsesToml) {
  program::Settings settings;
  settings.set("learning_rate.base=0.25");
  settings.set(" learning_rate.step_epochs = [1, 2]");
  settings.set("data.flip=true");
  settings.set("strategy=ps-async");
  settings.set("run.name=2024");  // a string is wanted: no quotes are needed
  settings.set("transport.listen=10.0.0.1:5000");
  settings.set("data.folder=\"/a b\\\\c\"");
  settings.set("data.cache=");
  EXPECT_EQ(settings->plan.learning_rate.base, 0.25);
  EXPECT_EQ(settings->plan.learning_rate.step_epochs, (Numbers{1, 2}));
  EXPECT_TRUE(settings->augmentation.flip);
  EXPECT_EQ(settings->strategy, "ps-async");
  EXPECT_EQ(settings->run.name, "2024");
  EXPECT_EQ(settings->transport.listen, "10.0.0.1:5000");
  EXPECT_EQ(settings->data.folder, "/a b\\c");
  EXPECT_EQ(settings->data.cache, "");
  EXPECT_EQ(settings.origin("data.cache"), "--set");
}

TEST(Settings, UnknownKeysNameTheNearest) {
  EXPECT_EQ(refused_text("\n\n  worker = 2"), "r.toml:3:3: unknown key worker; did you mean workers?");
  EXPECT_EQ(refused_text("[optimizer]\nname = 'sgd'"),
            "r.toml:2:1: unknown key optimizer.name; did you mean optimiser.name?");
  EXPECT_EQ(refused_text("epochs = 3"), "r.toml:1:1: unknown key epochs; did you mean train.epochs?");
  EXPECT_EQ(refused_text("[learning_rate]\nbsae = 1"),
            "r.toml:2:1: unknown key learning_rate.bsae; did you mean learning_rate.base?");
  EXPECT_EQ(refused_text("zzzzzzzz = 1"), "r.toml:1:1: unknown key zzzzzzzz; --print-config lists all keys");
  EXPECT_EQ(refused_text("[nonsense_here]"), "r.toml:1:2: unknown key nonsense_here; --print-config lists all keys");
  EXPECT_EQ(refused_set("optimizer.lr=1"), "--set: unknown key optimizer.lr; did you mean learning_rate.base?");
  EXPECT_EQ(refused_set("train.learning_rate=1"),
            "--set: unknown key train.learning_rate; did you mean learning_rate.base?");
  EXPECT_EQ(refused_set("frobnicate.all=1"), "--set: unknown key frobnicate.all; --print-config lists all keys");
  EXPECT_EQ(
      refused_set("simulated.gbit_s=1"),
      "--set: unknown key simulated.gbit_s; did you mean simulated.mbit_s? (in 10^6 bits a second: 1 Gb/s is 1000)");
  for (const auto& [word, key] : {std::pair("data.samples", "data.train_samples"),
                                  {"batch.size", "batch.per_worker"},
                                  {"batch_size", "batch.per_worker"},
                                  {"batch-size", "batch.per_worker"},
                                  {"lr", "learning_rate.base"},
                                  {"epochs", "train.epochs"},
                                  {"num_workers", "workers"},
                                  {"world_size", "workers"},
                                  {"momentum", "optimiser.momentum"},
                                  {"dataset", "data.name"},
                                  {"bandwidth", "transport.mbit_s"},
                                  {"simulated.node_gbit_s", "simulated.node_mbit_s"},
                                  {"lab.gbit_s", "lab.mbit_s"}}) {
    EXPECT_NE(refused_set(text(word, "=1")).find(text("did you mean ", key, "?")), std::string::npos)
        << refused_set(text(word, "=1"));
  }
  EXPECT_EQ(refused_set("wrokers=2"), "--set: unknown key wrokers; did you mean workers?");
  EXPECT_EQ(refused_text("data = 3"),
            "r.toml:1:1: data is a table of keys, not a value: write [data], or data.KEY = ...");
  // The first in the file is reported, though toml++ sorts by name.
  EXPECT_NE(refused_text("zz = 1\naa = 1").find("r.toml:1:1"), std::string::npos);
}

TEST(Settings, WrongTypesNameBoth) {
  EXPECT_EQ(refused_text("workers = 'two'"), "r.toml:1:1: workers must be a whole number, not the string \"two\"");
  EXPECT_EQ(refused_text("workers = 2.0"), "r.toml:1:1: workers must be a whole number, not 2.0");
  EXPECT_EQ(refused_text("[data]\nflip = 1"), "r.toml:2:1: data.flip must be true or false, not 1");
  EXPECT_EQ(refused_text("model = true"), "r.toml:1:1: model must be a string, not true");
  EXPECT_EQ(refused_text("model = 1979-05-27"), "r.toml:1:1: model must be a string, not a date or time");
  EXPECT_EQ(refused_text("simulated.slow = ['a']"),
            "r.toml:1:11: simulated.slow must be an array of numbers, not an array of other things");
  EXPECT_EQ(refused_text("simulated.slow = 2"), "r.toml:1:11: simulated.slow must be an array of numbers, not 2");
  EXPECT_EQ(refused_set("workers=two"), "--set: workers must be a whole number, not the string \"two\"");
  EXPECT_EQ(refused_set("workers=[2]"), "--set: workers must be a whole number, not [2.0]");
}

TEST(Settings, RangesAreHeld) {
  EXPECT_EQ(refused_text("workers = 0"), "r.toml:1:1: workers = 0 is out of range: it must be from 1 to 4096");
  EXPECT_EQ(refused_set("optimiser.momentum=1"),
            "--set: optimiser.momentum = 1.0 is out of range: it must be from 0 to below 1");
  EXPECT_EQ(refused_set("learning_rate.base=0"),
            "--set: learning_rate.base = 0.0 is out of range: it must be above 0 to 1000");
  EXPECT_EQ(refused_set("transport.timeout_s=-1"),
            "--set: transport.timeout_s = -1.0 is out of range: it must be above 0 to 1000000");
  EXPECT_EQ(refused_set("simulated.slow=[1,0]"),
            "--set: simulated.slow = [1.0, 0.0] is out of range: each number must be above 0 to 10000");
  for (const char* odd : {"train.label_smoothing=nan", "simulated.image_us=inf", "simulated.image_us=-inf"}) {
    EXPECT_NE(refused_set(odd).find("out of range"), std::string::npos) << odd;
  }
  for (const char* edge : {"workers=1", "workers=4096", "optimiser.momentum=0", "learning_rate.base=1000",
                           "optimiser.weight_decay=1", "data.crop_padding=16"}) {
    program::Settings settings;
    EXPECT_NO_THROW(settings.set(edge)) << edge;
  }
}

TEST(Settings, WordsAreFromTheirList) {
  EXPECT_EQ(refused_text("exchange.codec = 'pf16'"),
            "r.toml:1:10: exchange.codec = \"pf16\" is not one of auto, fp32, fp16, bf16, int8, qsgd, sign, topk, "
            "topk-sampled, powersgd; did you mean fp16?");
  EXPECT_EQ(refused_set("transport.kind=carrier-pigeon"),
            "--set: transport.kind = \"carrier-pigeon\" is not one of tcp, mpi, simulated");
}

TEST(Settings, TransportsAreThoseOfTheTable) {
  const auto& all = program::all_settings();
  const auto kind =
      std::find_if(all.begin(), all.end(), [](const program::Setting& one) { return one.key == "transport.kind"; });
  ASSERT_NE(kind, all.end());
  std::vector<std::string> names;
  program::Settings settings;
  for (const transport::Transport& transport : transport::transports()) {
    names.emplace_back(transport.name);
    EXPECT_NE(kind->help.find(text(transport.name, ": ", transport.title)), std::string::npos) << kind->help;
    settings.set(text("transport.kind=", transport.name));
    EXPECT_EQ(settings->in_virtual_time(), transport.is_virtual());
  }
  EXPECT_EQ(kind->allowed, names);
}

TEST(Settings, BadFilesAreNamed) {
  EXPECT_EQ(refused_text("model = 'a'\nworkers = = 2").rfind("r.toml:2:11: ", 0), 0u);
  EXPECT_EQ(refused_text("workers = 2\nworkers = 3").rfind("r.toml:2:", 0), 0u);
  EXPECT_EQ(refused_text("exchange.codec = 'fp16'\n'exchange.codec' = 'fp32'"),
            "r.toml:2:1: exchange.codec is given twice, first at r.toml:1");
  EXPECT_NE(refused_text("seeds = 2").find("more than one run"), std::string::npos);
  EXPECT_NE(refused_text("[grid]\nworkers = [1]").find("more than one run"), std::string::npos);
  EXPECT_EQ(refused_set("workers").rfind("--set workers: write KEY=VALUE", 0), 0u);
  EXPECT_EQ(refused_set("=3").rfind("--set =3: write KEY=VALUE", 0), 0u);
  const std::string missing = refusal([] { program::Settings().load("no/such/recipe.toml"); });
  EXPECT_EQ(missing.rfind("no/such/recipe.toml: cannot open", 0), 0u) << missing;
}

TEST(Settings, CheckAcrossKeys) {
  const auto check = [](std::vector<std::string> sets) {
    return refusal([&] {
      program::Settings settings;
      for (const auto& set : sets) settings.set(set);
      settings.check();
    });
  };
  const std::string fine = "nothing was refused";
  EXPECT_EQ(check({}).rfind("no batch size: state batch.global", 0), 0u);
  EXPECT_EQ(check({"batch.global=1", "workers=8"}), fine);
  EXPECT_EQ(check({"batch.per_worker=64"}), fine);
  EXPECT_EQ(check({"batch.global=8", "batch.per_worker=4"})
                .rfind("batch.global = 8 (--set) and batch.per_worker = 4 (--set) are both stated", 0),
            0u);
  EXPECT_EQ(check({"batch.global=8", "batch.global=0", "batch.per_worker=4"}), fine);
  EXPECT_EQ(check({"batch.global=8", "optimiser.nesterov=true"}),
            "optimiser.nesterov = true (--set) needs a momentum above 0, but optimiser.momentum = 0.0 (default)");
  EXPECT_EQ(check({"batch.global=8", "optimiser.nesterov=true", "optimiser.momentum=0.9"}), fine);
  EXPECT_NE(check({"batch.global=8", "learning_rate.warmup_epochs=1"}), fine);
  EXPECT_EQ(check({"batch.global=8", "learning_rate.warmup_epochs=1", "train.epochs=2"}), fine);
  EXPECT_NE(check({"batch.global=8", "learning_rate.step_epochs=[2,2]"}), fine);
  EXPECT_NE(check({"batch.global=8", "learning_rate.schedule=step"}), fine);
  EXPECT_EQ(check({"batch.global=8", "learning_rate.schedule=step", "learning_rate.step_epochs=[1,2]"}), fine);
}

TEST(Settings, EveryKeyWithoutEffectIsNamedWithWhatLeavesItSo) {
  const struct {
    std::vector<std::string> given;
    std::string idle, because, where;
  } cases[] = {
      {{"lab.mbit_s=10"}, "lab.mbit_s = 10.0", "lab.nodes = 0", "lab.nodes above 0"},
      {{"lab.nodes=2", "lab.mbit_s=10", "transport.kind=simulated"},
       "lab.nodes = 2",
       "transport.kind = \"simulated\"",
       "tcp"},
      {{"simulated.mbit_s=1"}, "simulated.mbit_s = 1.0", "transport.kind = \"tcp\"", "simulated"},
      {{"transport.kind=simulated", "simulated.node_mbit_s=10"},
       "simulated.node_mbit_s = 10.0",
       "simulated.per_node = 1",
       "above 1"},
      {{"transport.kind=simulated", "train.compute=replay", "simulated.image_us=5"},
       "simulated.image_us",
       "train.compute = \"replay\"",
       "real"},
      {{"transport.kind=simulated", "transport.mbit_s=5"}, "transport.mbit_s", "transport.kind", "tcp"},
      {{"ps.staleness=4"}, "ps.staleness = 4", "strategy = \"ring\"", "ps-ssp"},
      {{"strategy=fedavg", "local.steps=4"}, "local.steps = 4", "strategy = \"fedavg\"", "local-sgd or diloco"},
      {{"fedavg.fraction=0.5"}, "fedavg.fraction", "strategy", "fedavg, fedavgm or fedadam"},
      {{"strategy=fedavg", "outer.momentum=0.5"}, "outer.momentum", "strategy", "fedavgm or diloco"},
      {{"passes=3"}, "passes = 3", "strategy", "accumulate, ring-passes or ring-groups"},
      {{"strategy=single", "workers=4"}, "workers = 4", "strategy = \"single\"", "single"},
      {{"strategy=single", "exchange.codec=fp16"}, "exchange.codec = \"fp16\"", "strategy = \"single\"", "single"},
      {{"strategy=ps-sync", "exchange.bucket_mb=5"}, "exchange.bucket_mb", "strategy", "ddp"},
      {{"strategy=ddp", "exchange.measure=on", "exchange.bucket_mb=5"},
       "exchange.bucket_mb",
       "exchange.measure = \"on\"",
       "than on"},
      {{"strategy=ddp", "exchange.small_route=direct"}, "exchange.small_route", "exchange.small_kb = 0", "above 0"},
      {{"exchange.in_flight=2"}, "exchange.in_flight", "strategy", "ddp"},
      {{"exchange.per_node=2"}, "exchange.per_node", "strategy", "hierarchical"},
      {{"codec.bits=3"}, "codec.bits = 3", "exchange.codec = \"auto\"", "qsgd"},
      {{"exchange.codec=int8", "codec.rank=3"}, "codec.rank = 3", "exchange.codec = \"int8\"", "powersgd"},
      {{"strategy=fedavg", "exchange.codec=int8", "codec.error_feedback=false"},
       "codec.error_feedback",
       "fedavg.exchange",
       "deltas"},
      {{"optimiser.beta1=0.5"}, "optimiser.beta1", "optimiser.name = \"sgd\"", "adam or adamw"},
      {{"optimiser.name=adam", "optimiser.momentum=0.9"},
       "optimiser.momentum",
       "optimiser.name = \"adam\"",
       "sgd or muon"},
      {{"optimiser.lookahead_decay=0.9"}, "optimiser.lookahead_decay", "optimiser.lookahead_every = 0", "above 0"},
      {{"learning_rate.peak_at=0.5"},
       "learning_rate.peak_at",
       "learning_rate.schedule = \"constant\"",
       "one-cycle or triangular"},
      {{"learning_rate.schedule=step", "learning_rate.step_epochs=[30]"},
       "step_epochs = [30.0]",
       "train.epochs = 1",
       "below train.epochs"},
      {{"data.alpha=0.1"}, "data.alpha", "data.partition = \"even\"", "dirichlet"},
      {{"data.partition=reshuffled"}, "data.partition", "strategy = \"ring\"", "fedavg"},
      {{"data.folder=here"}, "data.folder = \"here\"", "data.name = \"digits\"", "files"},
      {{"data.flip_alternate=true"}, "data.flip_alternate", "data.flip = false", "data.flip = true"},
      {{"data.crop_border=reflected"}, "data.crop_border", "data.crop_padding = 0", "above 0"},
  };
  for (const auto& one : cases) {
    program::Settings settings;
    for (const std::string& assignment : one.given) settings.set(assignment);
    const auto idle = settings.idle();
    ASSERT_FALSE(idle.empty()) << one.idle;
    EXPECT_TRUE(idle[0].asked);
    for (const std::string& words : {one.idle, one.because, one.where}) {
      EXPECT_NE(idle[0].why.find(words), std::string::npos) << idle[0].why << " without " << words;
    }
  }
}

TEST(Settings, KeysWithAnEffectAreNotCalledIdle) {
  const std::vector<std::string> cases[] = {
      {},
      {"lab.nodes=2", "lab.mbit_s=10", "lab.cpu=1"},
      {"lab.mbit_s=0", "optimiser.momentum=0", "exchange.small_kb=0"},  // what holds without them, too
      {"transport.kind=simulated", "simulated.mbit_s=1", "simulated.slow=[1,2]"},
      {"transport.kind=simulated", "simulated.per_node=2", "simulated.node_mbit_s=10", "simulated.node_latency_us=1"},
      {"strategy=ddp", "exchange.route=hierarchical", "exchange.per_node=2", "exchange.bucket_mb=1",
       "exchange.measure=off"},
      {"strategy=diloco", "local.steps=4", "outer.momentum=0.5", "exchange.codec=powersgd", "codec.rank=1"},
      {"strategy=of-my-own", "local.steps=4", "ps.staleness=1", "passes=2"},  // which may read anything
      {"strategy=single", "workers=1"},
      {"exchange.route=ring"},
  };
  for (const auto& given : cases) {
    program::Settings settings;
    for (const std::string& assignment : given) settings.set(assignment);
    for (const program::IdleKey& key : settings.idle()) ADD_FAILURE() << key.why;
  }
  program::Settings whole;  // a run's config.toml gives every key
  whole.load_text(program::Settings().to_toml(), "config.toml");
  EXPECT_TRUE(whole.idle().empty());
}

TEST(Settings, FoldersMayBeAnyBytesAndNamesAreUtf8) {
  const std::string bytes = "d\xc3\xa9j\xe0/\xff\xf4\x90", name = "\xff";
  for (const char* key : {"run.folder", "data.folder", "data.cache"}) {
    program::Settings settings, again;
    settings.set(std::string(key) + "=" + bytes);
    again.load_text(settings.to_toml(), "config.toml");
    EXPECT_EQ(again.value(key), program::Value(bytes));
    EXPECT_EQ(again.to_toml(), settings.to_toml());
  }
  for (const char* key : {"run.name", "model", "data.name", "transport.listen", "exchange.codec"}) {
    const std::string said = refused_set(std::string(key) + "=" + name);
    EXPECT_NE(said.find(key), std::string::npos) << said;
    EXPECT_NE(said.find("UTF-8"), std::string::npos) << said;
    EXPECT_EQ(said.find(name), std::string::npos) << "it is printed as text";
  }
}

TEST(Settings, GuessedWordsMeanKeysThatThereAre) {
  const auto& all = program::all_settings();
  const auto is_key = [&](std::string_view name) {
    return std::any_of(all.begin(), all.end(), [&](const program::Setting& one) { return one.key == name; });
  };
  for (const GuessedWord& row : guessed_words()) {
    EXPECT_FALSE(is_key(row.word)) << row.word;
    if (row.meant.find('.') != row.meant.npos) {
      EXPECT_TRUE(is_key(row.meant)) << row.meant;
    }
  }
}

}  // namespace
}  // namespace ripieno
