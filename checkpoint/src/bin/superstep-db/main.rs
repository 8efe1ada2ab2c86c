//! Looks into a database of checkpoints, and after it.

mod history;
mod size;

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use clap::{Parser, Subcommand};
use superstep_checkpoint::{
    CheckpointId, Checkpointer, Place, Prune, SqliteCheckpointer, delete_runs, read_archive,
    threads, verify, view, write_archive,
};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Looks into a database of checkpoints, and after it.
///
/// Exit code 0: done; 1: it failed; 2: the command is wrong; 3: `verify` found damage.
#[derive(Debug, Parser)]
#[command(name = "superstep-db")]
struct Arguments {
    /// The database: a SQLite file, or the URL of a PostgreSQL database.
    database: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists the threads with their nested graphs and how much they store.
    Threads,
    /// Shows the checkpoints of a thread as a tree.
    History {
        thread: String,
        /// Of a nested graph.
        #[arg(long, default_value = "")]
        namespace: String,
    },
    /// Shows a checkpoint as JSON: the newest, or the one with this number.
    Show {
        thread: String,
        checkpoint: Option<u64>,
        /// Of a nested graph.
        #[arg(long, default_value = "")]
        namespace: String,
    },
    /// Says how many bytes are stored, by channel and kind.
    Size { thread: Option<String> },
    /// Removes old checkpoints; what the others need of them stays.
    Prune {
        /// A thread; without one all threads.
        thread: Option<String>,
        /// The last so many of each thread stay.
        #[arg(long)]
        keep_last: Option<usize>,
        /// What is younger stays, as in `30d` or `12h`.
        #[arg(long, value_parser = humantime::parse_duration)]
        older_than: Option<std::time::Duration>,
        /// The last checkpoint of each branch stays.
        #[arg(long)]
        keep_heads: bool,
        /// Only says what would go.
        #[arg(long)]
        dry_run: bool,
    },
    /// Removes what runs with these ids left.
    DeleteRuns { thread: String, runs: Vec<String> },
    /// Removes threads with all that is stored of them, and leaves none of their bytes in the file.
    Erase { threads: Vec<String> },
    /// Gives the room of what was removed back to the file system (SQLite).
    Vacuum,
    /// Looks for damage.
    Verify { thread: Option<String> },
    /// Writes threads into an archive; without names all of them.
    Export { file: PathBuf, threads: Vec<String> },
    /// Stores the threads of an archive.
    Import { file: PathBuf },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ended = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::from)
        .and_then(|runtime| runtime.block_on(run(arguments)));
    match ended {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    let causes = causes.map(|cause| format!(": {cause}"));
    format!("{error}{}", causes.collect::<String>())
}

/// A database that is there.
enum Database {
    Sqlite(SqliteCheckpointer),
    #[cfg(feature = "postgres")]
    Postgres(superstep_checkpoint::PostgresCheckpointer),
}

impl Database {
    async fn open(name: &str) -> Result<Self, Error> {
        if name.starts_with("postgres://") || name.starts_with("postgresql://") {
            #[cfg(feature = "postgres")]
            return Ok(Database::Postgres(
                superstep_checkpoint::PostgresCheckpointer::connect(name).await?,
            ));
            #[cfg(not(feature = "postgres"))]
            return Err("this program was built without PostgreSQL (feature `postgres`)".into());
        }
        if !std::path::Path::new(name).is_file() {
            return Err(format!("there is no file {name}").into());
        }
        Ok(Database::Sqlite(SqliteCheckpointer::open(name)?))
    }

    fn store(&self) -> Arc<dyn Checkpointer> {
        match self {
            Database::Sqlite(store) => Arc::new(store.clone()),
            #[cfg(feature = "postgres")]
            Database::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// Gives back the room of what was removed, and leaves nothing of it behind. PostgreSQL does that by itself in time.
    async fn tidy_up(&self) -> Result<(), Error> {
        match self {
            Database::Sqlite(store) => Ok(store.vacuum().await?),
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => Ok(()),
        }
    }
}

async fn run(arguments: Arguments) -> Result<ExitCode, Error> {
    let database = Database::open(&arguments.database).await?;
    let store = database.store();
    match arguments.command {
        Command::Threads => size::print_threads(&store).await?,
        Command::History { thread, namespace } => {
            history::print(&store, &place(thread, namespace)).await?
        }
        Command::Show {
            thread,
            checkpoint,
            namespace,
        } => {
            let place = place(thread, namespace);
            let loaded = store.load(&place, checkpoint.map(CheckpointId)).await?;
            let loaded = loaded.ok_or_else(|| format!("{place} has no such checkpoint"))?;
            println!("{:#}", view(&loaded));
        }
        Command::Size { thread } => size::print(&store, thread).await?,
        Command::Prune {
            thread,
            keep_last,
            older_than,
            keep_heads,
            dry_run,
        } => {
            let prune = rules(keep_last, older_than, keep_heads)?;
            for thread in chosen(&store, thread.into_iter().collect()).await? {
                prune_thread(&store, &thread, prune, dry_run).await?;
            }
        }
        Command::Vacuum => database.tidy_up().await?,
        Command::DeleteRuns { thread, runs } => {
            let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
            let count = delete_runs(&store, &thread, &runs).await?;
            println!("{count} checkpoints removed");
        }
        Command::Erase { threads } => {
            for thread in chosen_by_name(&store, threads).await? {
                store.delete_thread(&thread).await?;
                println!("{thread}: erased");
            }
            database.tidy_up().await?;
        }
        Command::Verify { thread } => return verify_all(&database, &store, thread).await,
        Command::Export { file, threads } => {
            let names = chosen(&store, threads).await?;
            let mut to = BufWriter::new(File::create_new(&file)?);
            let count = write_archive(&store, names, &mut to).await?;
            println!("{count} threads in {}", file.display());
        }
        Command::Import { file } => {
            let mut from = BufReader::new(File::open(&file)?);
            let count = read_archive(&store, &mut from, |name| name).await?;
            println!("{count} threads stored");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn place(thread: String, namespace: String) -> Place {
    Place {
        thread: thread.into(),
        namespace: namespace.into(),
    }
}

/// The threads of these names, which have to be there; all if there are none.
async fn chosen(store: &dyn Checkpointer, names: Vec<String>) -> Result<Vec<String>, Error> {
    match names.is_empty() {
        true => Ok(threads(store).await?.into_keys().collect()),
        false => chosen_by_name(store, names).await,
    }
}

async fn chosen_by_name(
    store: &dyn Checkpointer,
    names: Vec<String>,
) -> Result<Vec<String>, Error> {
    let all = threads(store).await?;
    match names.iter().find(|name| !all.contains_key(*name)) {
        Some(unknown) => Err(format!("there is no thread `{unknown}`").into()),
        None => Ok(names),
    }
}

fn rules(
    keep_last: Option<usize>,
    older_than: Option<std::time::Duration>,
    keep_heads: bool,
) -> Result<Prune, Error> {
    let moment = match older_than {
        None => None,
        Some(age) => Some(
            SystemTime::now()
                .checked_sub(age)
                .ok_or("that is before all time")?,
        ),
    };
    let prune = match (keep_last, moment) {
        (Some(last), Some(moment)) => Prune::keep_last(last).and_older_than(moment),
        (Some(last), None) => Prune::keep_last(last),
        (None, Some(moment)) => Prune::older_than(moment),
        (None, None) => {
            return Err("say what may go: --keep-last N, --older-than AGE, or both".into());
        }
    };
    Ok(if keep_heads {
        prune.keep_heads()
    } else {
        prune
    })
}

async fn prune_thread(
    store: &dyn Checkpointer,
    thread: &str,
    prune: Prune,
    dry_run: bool,
) -> Result<(), Error> {
    let plan = prune.plan(store, thread).await?;
    let count = plan.checkpoints();
    if dry_run {
        println!("{thread}: {count} checkpoints would go");
        return Ok(());
    }
    let before = store.size(thread).await?.bytes();
    plan.carry_out(store).await?;
    let after = store.size(thread).await?.bytes();
    println!("{thread}: {count} checkpoints gone, {before} bytes before and {after} now");
    Ok(())
}

async fn verify_all(
    database: &Database,
    store: &dyn Checkpointer,
    thread: Option<String>,
) -> Result<ExitCode, Error> {
    let structure = match database {
        Database::Sqlite(store) if thread.is_none() => store.check_file().await?,
        _ => Vec::new(),
    };
    structure.iter().for_each(|problem| println!("{problem}"));
    let mut damaged = 0;
    let names = chosen(store, thread.into_iter().collect()).await?;
    let count = names.len();
    for thread in names {
        let findings = match verify(store, &thread).await {
            Ok(findings) => findings.iter().map(ToString::to_string).collect(),
            Err(error) => vec![with_causes(&error)],
        };
        damaged += usize::from(!findings.is_empty());
        findings.iter().for_each(|finding| println!("{finding}"));
    }
    println!("{count} threads looked at, {damaged} damaged");
    Ok(if damaged > 0 || !structure.is_empty() {
        ExitCode::from(3)
    } else {
        ExitCode::SUCCESS
    })
}
