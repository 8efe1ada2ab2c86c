//! The job as an agent: a coordinator, the surveyors it hands parts to, and the report it writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use superstep::Update;
use superstep::channels::Key;
use superstep_agent::agent::{Agent, AgentError, Subagent, create_agent, says};
use superstep_agent::files::{Disk, read_tools};
use superstep_agent::middleware::{Middleware, approve, limit_model_calls, patch_tool_calls};
use superstep_agent::model::ChatModel;
use superstep_agent::tool::{Tool, ToolResult};

use crate::prompts::{COORDINATOR, SURVEYOR, SURVEYOR_PROMPT, request};
use superstep_examples::failed::Failed;

/// The directory that the thread surveys.
const ROOT: Key<String> = Key::last("root");
/// Whether a person is asked before the report is written.
const ASK: Key<bool> = Key::last("ask");

/// No agent needs more; a model that goes round in circles is stopped.
const MODEL_CALLS: usize = 60;

/// What the job works on. It is part of the thread, so a thread that is taken up again goes on with the same.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) root: PathBuf,
    pub(crate) ask: bool,
}

impl Job {
    /// The input that starts the thread.
    pub(crate) fn input(&self) -> Update {
        let name = self.root.file_name().unwrap_or(self.root.as_os_str());
        says(request(&name.to_string_lossy()))
            .put(ROOT, self.root.to_string_lossy().into_owned())
            .put(ASK, self.ask)
    }

    /// The job that a thread was started with.
    pub(crate) fn of(values: &superstep::Fields) -> Option<Job> {
        Some(Job {
            root: values.value(ROOT).ok()??.into(),
            ask: values.value(ASK).ok()??,
        })
    }

    /// The agent that does it. The report goes to `report`.
    pub(crate) fn agent(&self, model: Arc<dyn ChatModel>, report: &Path) -> Result<Agent, Failed> {
        let disk = Disk::open(&self.root)
            .map_err(|error| Failed::file("cannot survey", &self.root, &error))?;
        self.assemble(model, Arc::new(disk), report)
            .map_err(|error| Failed::because("the agent", &error))
    }

    fn assemble(
        &self,
        model: Arc<dyn ChatModel>,
        disk: Arc<Disk>,
        report: &Path,
    ) -> Result<Agent, AgentError> {
        let surveyor = create_agent(Arc::clone(&model))
            .named(SURVEYOR)
            .system_prompt(SURVEYOR_PROMPT)
            .tools(read_tools(Arc::clone(&disk)))
            .middleware(limit_model_calls(MODEL_CALLS))
            .build()?;
        let subagent = Subagent {
            name: SURVEYOR.into(),
            description: "Surveys one part of the directory and reports what is in it.".into(),
            agent: surveyor,
        };
        let mut coordinator = create_agent(model)
            .named("coordinator")
            .system_prompt(COORDINATOR)
            .tools(read_tools(disk))
            .subagent(subagent)
            .tool(write_report(report.to_owned()))
            .middleware(
                Middleware::new("job")
                    .channel(ROOT.spec())
                    .channel(ASK.spec()),
            )
            .middleware(patch_tool_calls())
            .middleware(limit_model_calls(MODEL_CALLS));
        if self.ask {
            coordinator = coordinator.middleware(approve(["write_report"]));
        }
        coordinator.build()
    }
}

#[derive(Deserialize, JsonSchema)]
struct ReportArgs {
    /// The whole report, in Markdown.
    content: String,
}

fn write_report(path: PathBuf) -> Tool {
    let description = "Writes the finished report. Call it once, with the whole text.";
    Tool::new("write_report", description, move |args: ReportArgs, _| {
        let result = write_whole(&path, &args.content);
        let path = path.display().to_string();
        async move {
            result?;
            Ok(format!("the report is written: {path}").into()) as ToolResult
        }
    })
}

/// Writes the file as a whole or not at all, so that a kill leaves no half of it.
fn write_whole(path: &Path, content: &str) -> std::io::Result<()> {
    let beside = path.with_extension("md.part");
    fs::write(&beside, content)?;
    fs::File::open(&beside)?.sync_all()?;
    fs::rename(&beside, path)
}
